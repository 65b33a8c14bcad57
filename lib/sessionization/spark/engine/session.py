"""The Spark session: the cluster's on Databricks, one of our own elsewhere."""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sessionization.databricks import on_databricks
from sessionization.errors import ConfigurationError

__all__ = [
    "CLUSTER_CONF",
    "STREAM_CONF",
    "has_session",
    "job_session",
    "on_databricks",
    "spark_session",
    "use_scheduler_pool",
]

STREAM_CONF = {
    "spark.sql.session.timeZone": "UTC",
    # A repeated field of a message counts once, whichever; without this it would make the message malformed.
    "spark.sql.variant.allowDuplicateKeys": "true",
    # Timers need micro-batches when no event comes.
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
    # A nullable field added to the state by a later version reads as null from an older checkpoint.
    "spark.sql.streaming.stateStore.encodingFormat": "avro",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A query that does not let itself be stopped must not keep the job from ending.
    "spark.sql.streaming.stopTimeout": "5s",
    # Several queries share the cores: a long MERGE must not hold back a heartbeat.
    "spark.scheduler.mode": "FAIR",
}


CLUSTER_CONF = STREAM_CONF | {
    "spark.sql.streaming.stateStore.providerClass": "com.databricks.sql.streaming.state.RocksDBStateStoreProvider",
}
"""What a cluster must have; `bundles/sessionize.job.yml` sets it, since not all of it can be set in a running one."""


def spark_session(log_file: Path) -> SparkSession:
    """The session that the queries run in, with the settings that their results depend on.

    Args:
        log_file: where a local engine logs; not used on Databricks, where the cluster logs.

    Raises `ConfigurationError` for a cluster that lacks a setting which cannot be set while it runs.
    """
    if on_databricks():
        spark = SparkSession.builder.getOrCreate()
        _set_up(spark)
        return spark
    from sessionization.local_engine.local_session import local_session

    return local_session(log_file, STREAM_CONF)


@contextlib.contextmanager
def job_session(log_file: Path | None = None, conf: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """The session of a job, stopped in the end; one that this process had before goes on as it was.

    Args:
        log_file: as of `spark_session`; without one a local engine's log is kept no longer than the job runs.
        conf: settings by name that the job wants besides, of a session of its own only.

    Raises `ConfigurationError` as `spark_session` does.
    """
    with contextlib.ExitStack() as stack:
        if log_file is None:
            log_file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "engine.log"
        is_ours = not has_session()
        spark = spark_session(log_file)
        try:
            if is_ours:
                for name, value in (conf or {}).items():
                    spark.conf.set(name, value)
            yield spark
        finally:
            if is_ours:
                with contextlib.suppress(Py4JError, OSError):  # an engine that is dead need not be stopped
                    spark.stop()


def has_session() -> bool:
    """Whether this process has a Spark session already, a notebook's or the cluster's, that is not ours to stop."""
    return on_databricks() or SparkContext._active_spark_context is not None  # noqa: SLF001 - known nowhere else


def use_scheduler_pool(spark: SparkSession, pool: str) -> None:
    """Let what this thread starts have a scheduling pool of its own: within one pool, jobs wait for each other.

    Where there is no Spark context to ask for it (Spark Connect) it stays in the default pool.
    """
    with contextlib.suppress(PySparkException):
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)


def _set_up(spark: SparkSession) -> None:
    for name, value in CLUSTER_CONF.items():
        if spark.conf.get(name, None) == value:
            continue
        try:
            spark.conf.set(name, value)
        except PySparkException as error:
            found = spark.conf.get(name, None)
            is_now = "does not set it" if found is None else f"has it as {found}"
            msg = (
                f"the cluster must have {name}={value} but {is_now}, and it cannot be set while the cluster runs: put it "
                "into the cluster's Spark configuration (bundles/sessionize.job.yml has it all), and restart the cluster"
            )
            raise ConfigurationError(msg) from error
