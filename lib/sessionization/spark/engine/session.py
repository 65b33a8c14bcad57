"""The Spark session: the cluster's session on Databricks, a local one elsewhere."""

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
    "GENERATED_CODE_CONF",
    "STREAM_CONF",
    "has_session",
    "job_session",
    "on_databricks",
    "spark_session",
    "use_scheduler_pool",
]

STREAM_CONF = {
    "spark.sql.session.timeZone": "UTC",
    # One value of a repeated field counts, no matter which; by default the message would be malformed.
    "spark.sql.variant.allowDuplicateKeys": "true",
    # Timers need micro-batches when no event comes.
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
    # A nullable field added to the state by a later version reads as null from an older checkpoint.
    "spark.sql.streaming.stateStore.encodingFormat": "avro",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A query that cannot be stopped must not prevent the end of the job.
    "spark.sql.streaming.stopTimeout": "5s",
    # Several queries share the cores: a long MERGE must not delay a heartbeat.
    "spark.scheduler.mode": "FAIR",
}


GENERATED_CODE_CONF = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""Settings for many rows. A local session turns generated code off, because compiling it takes longer than a small
micro-batch."""

CLUSTER_CONF = STREAM_CONF | {
    "spark.sql.streaming.stateStore.providerClass": "com.databricks.sql.streaming.state.RocksDBStateStoreProvider",
}
"""The settings of a cluster. `bundles/sessionize.job.yml` has them, because some cannot be set while it runs."""


def spark_session(log_file: Path) -> SparkSession:
    """Return the session in which the queries run, with the settings on which their results depend.

    Args:
        log_file: the log of a local engine; not used on Databricks, where the cluster logs.

    Raises `ConfigurationError` for a cluster that lacks a setting, if that cannot be set while the cluster runs.
    """
    if on_databricks():
        spark = SparkSession.builder.getOrCreate()
        _apply_cluster_conf(spark)
        return spark
    from sessionization.local_engine.local_session import local_session

    return local_session(log_file, STREAM_CONF)


@contextlib.contextmanager
def job_session(log_file: Path | None = None, conf: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Yield the session of a job, and stop it at the end; a session that this process had before is left running.

    Args:
        log_file: as in `spark_session`; without one, a local engine's log is deleted when the job ends.
        conf: additional settings by name; they are set only in a session that starts here.

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
                with contextlib.suppress(Py4JError, OSError):  # a dead engine need not be stopped
                    spark.stop()


def has_session() -> bool:
    """Whether this process already has a Spark session, a notebook's or the cluster's, which a job must not stop."""
    return on_databricks() or SparkContext._active_spark_context is not None  # noqa: SLF001 - not public


def use_scheduler_pool(spark: SparkSession, pool: str) -> None:
    """Run the Spark jobs of this thread in the pool `pool`, because jobs within one pool wait for each other.

    Without a Spark context (Spark Connect) they run in the default pool.
    """
    with contextlib.suppress(PySparkException):
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)


def _apply_cluster_conf(spark: SparkSession) -> None:
    for name, value in CLUSTER_CONF.items():
        if spark.conf.get(name, None) == value:
            continue
        try:
            spark.conf.set(name, value)
        except PySparkException as error:
            found = spark.conf.get(name, None)
            difference = "does not set it" if found is None else f"has it as {found}"
            msg = (
                f"the cluster must have {name}={value} but {difference}, and it cannot be set while the cluster runs: "
                "put it into the cluster's Spark configuration (bundles/sessionize.job.yml has it all), "
                "and restart the cluster"
            )
            raise ConfigurationError(msg) from error
