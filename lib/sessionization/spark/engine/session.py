"""The Spark session: the caller's, or a local one where there is none.

A caller is Databricks, `spark-submit`, the shell `pyspark`, or a program that has made a session. Its session has its
own master, memory and other settings. The job adds those that its results depend on.
"""

import contextlib
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pydantic import BaseModel
from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sessionization.command_line.options import locations
from sessionization.databricks import on_databricks
from sessionization.errors import ConfigurationError
from sessionization.hadoop_path import HadoopPath
from sessionization.private_delta import has_delta
from sessionization.private_spark import active_context, connect_to_submitted_jvm, hadoop_conf, jvm_of
from sessionization.say import Say
from sessionization.spark.engine.job_conf import (
    CATALOG,
    DATABRICKS_CONF,
    DELTA_CONF,
    EXTENSIONS,
    NO_CATALOG,
    OPEN_SOURCE_CONF,
    TIME_ZONE_CONF,
    with_conf,
    words,
)
from sessionization.spark.engine.local_start import start_local_engine
from sessionization.stop_signals import preserve_interrupt_handler

_PARTITIONS = "spark.sql.shuffle.partitions"
_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_PACKAGE = "org.apache.spark.sql.execution.streaming.checkpointing"
KEEPS_FILES = f"{_PACKAGE}.FileSystemBasedCheckpointFileManager"
"""Renames by `FileSystem.rename`, which replaces a file on Hadoop's local disk alone: elsewhere the older one stays."""
REPLACES_FILES = f"{_PACKAGE}.FileContextBasedCheckpointFileManager"
"""Renames by `FileContext.rename`, which replaces a file anywhere. It is Spark's default."""
_DEFAULT_STORAGE = "fs.defaultFS"
_READ_BY_SPARK = ("input", "warehouse", "checkpoints")
"""The settings with a location that Spark reads, and not only the driver."""


def spark_session(log_file: Path, depends_on: Mapping[str, str] | None = None) -> SparkSession:
    """Return the session in which the queries run, with the settings on which their results depend.

    Args:
        log_file: the log of a local engine; not used where the session is the caller's.
        depends_on: the settings on which a job without a stream depends; on Databricks it runs on any compute. Without
            it, the settings are the stream's.

    Raises `ConfigurationError` for a caller's session that lacks settings which cannot be set while Spark runs, and for
    a stream where there is no JVM. Raises `SetupError` where there is no session, and this machine cannot start one.
    """
    if on_databricks():
        spark = SparkSession.builder.getOrCreate()
        if depends_on is None:
            refuse_without_jvm(spark)
            remedy = (
                "put all of spark_conf in bundles/sessionize.job.yml into the cluster's Spark configuration, "
                "and restart the cluster"
            )
            return with_conf(spark, DATABRICKS_CONF, remedy)
        return with_conf(spark, depends_on, "run the job on a cluster, because serverless compute takes few settings")
    if active_context() is not None:
        remedy = "set them where the session is created (--conf NAME=VALUE), next to other extensions that are there"
        conf = OPEN_SOURCE_CONF if depends_on is None else {**depends_on, **DELTA_CONF}
        return with_conf(_with_delta(SparkSession.builder.getOrCreate()), conf, remedy)
    if _is_submitted():
        return _submitted_session()
    _silence_errors()
    return start_local_engine(log_file, OPEN_SOURCE_CONF)


def refuse_without_jvm(spark: SparkSession) -> None:
    """Raises `ConfigurationError` where the session is of Spark Connect: it has no JVM, and copies a query's sinks."""
    if jvm_of(spark) is None:
        msg = (
            "this job needs a cluster with dedicated access mode: serverless compute and standard access mode "
            "(Spark Connect) cannot run it"
        )
        raise ConfigurationError(msg)


@contextlib.contextmanager
def job_session(
    log_file: Path | None = None,
    conf: Mapping[str, str] | None = None,
    depends_on: Mapping[str, str] | None = None,
    settings: BaseModel | None = None,
) -> Iterator[SparkSession]:
    """Yield the session of a job, and stop it at the end unless it is the caller's (`is_callers_session`).

    Args:
        log_file: as in `spark_session`; without one, a local engine's log is deleted when the job ends.
        conf: additional settings by name; they are not set in a caller's session.
        depends_on: as in `spark_session`.
        settings: of a job that reads its paths itself too: Spark must take them for the same folders.

    Raises `ConfigurationError` as `spark_session` does, and where Spark would take a path for one of another storage.
    """
    with contextlib.ExitStack() as stack:
        if log_file is None:
            log_file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "engine.log"
        is_ours = not is_callers_session()
        spark = spark_session(log_file, depends_on)
        try:
            if settings is not None:
                _refuse_other_default_storage(spark, settings)
            if is_ours:
                for name, value in (conf or {}).items():
                    spark.conf.set(name, value)
            yield spark
        finally:
            if is_ours:
                with contextlib.suppress(Py4JError, OSError):  # a dead engine need not be stopped
                    spark.stop()


@contextlib.contextmanager
def session_for_uris(settings: BaseModel, say: Say, conf: Mapping[str, str] | None = None) -> Iterator[str | None]:
    """Start the session at once where a setting is a URI, because a URI is read by the engine.

    Until the body has ended, that session is the caller's for `job_session`. `conf` is as there. Yields where the
    engine logs, for messages; None where no setting is a URI. Raises `ConfigurationError` as `spark_session` does.
    """
    if not any(isinstance(place, HadoopPath) for _, place in locations(settings)):
        yield None
        return
    log_file = None
    if not is_callers_session():
        log_file = Path(tempfile.mkdtemp(prefix="sessionization-")) / "engine.log"
        say(f"Spark starts first, because a location is a URI; it logs into {log_file}")
    log_place = describe_log(log_file)
    with job_session(log_file, conf, TIME_ZONE_CONF) as spark:
        # A local session has another setting, for its disk (docs/adr/0031-renames-without-processes.md).
        if spark.conf.get(_MANAGER, None) == KEEPS_FILES:
            spark.conf.set(_MANAGER, REPLACES_FILES)
        yield log_place


def _refuse_other_default_storage(spark: SparkSession, settings: BaseModel) -> None:
    """Check that Spark takes a path without a scheme for a folder of a local disk, as this driver does.

    Raises `ConfigurationError` where the cluster's default storage is another one, such as HDFS.
    """
    paths = [place for name, place in locations(settings) if name in _READ_BY_SPARK and isinstance(place, Path)]
    if not paths or on_databricks():
        return
    conf = hadoop_conf(spark)
    if conf is None:  # over Spark Connect
        return
    default = str(conf.get(_DEFAULT_STORAGE, "file:///"))
    if not default.startswith("file:"):
        msg = (
            f"{paths[0]} has no scheme, and Spark's default storage is {default} ({_DEFAULT_STORAGE}): "
            f"write {default.rstrip('/')}{paths[0].absolute()}, or set spark.hadoop.{_DEFAULT_STORAGE}=file:///"
        )
        raise ConfigurationError(msg)


def is_callers_session() -> bool:
    """Whether the Spark session is the caller's, or will be (spark-submit), so that a job must not stop it."""
    return on_databricks() or active_context() is not None or _is_submitted()


def describe_log(log_file: Path | None) -> str:
    """Where the engine logs, for messages; to be called before the session starts."""
    return (
        "the driver's log"
        if log_file is None or is_callers_session()
        else f"{log_file} and {log_file.with_suffix('.out')}"
    )


def use_scheduler_pool(spark: SparkSession, pool: str) -> None:
    """Run the Spark jobs of this thread in the pool `pool`, because jobs within one pool wait for each other.

    Without a Spark context (Spark Connect) they run in the default pool.
    """
    with contextlib.suppress(PySparkException):
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)


def cores_of(spark: SparkSession) -> int | None:
    """How many tasks the engine can run at once; None where Spark Connect does not say."""
    try:
        return spark.sparkContext.defaultParallelism
    except PySparkException:
        return None


def _is_submitted() -> bool:
    """Whether `spark-submit` or `pyspark` has started this process, with a JVM that has the caller's settings."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _submitted_session() -> SparkSession:
    """Start the session in the JVM of `spark-submit`, with the caller's settings.

    Raises `ConfigurationError` where the caller has chosen another catalog, or no number of state partitions.
    """
    connect_to_submitted_jvm()
    given = SparkConf()
    if (catalog := given.get(CATALOG)) not in NO_CATALOG | {OPEN_SOURCE_CONF[CATALOG]}:
        msg = f"--conf {CATALOG}={catalog} is not Delta's: leave it out, or give {OPEN_SOURCE_CONF[CATALOG]}"
        raise ConfigurationError(msg)
    if given.get(_PARTITIONS) is None:
        msg = (
            f"--conf {_PARTITIONS} is missing: give the number of the cluster's cores; only rescale_state changes it "
            "later (without spark-submit: unset PYSPARK_GATEWAY_PORT, which a shell of pyspark has set)"
        )
        raise ConfigurationError(msg)
    extensions = dict.fromkeys(filter(None, (*words(given.get(EXTENSIONS) or ""), OPEN_SOURCE_CONF[EXTENSIONS])))
    conf: dict[str, Any] = OPEN_SOURCE_CONF | {EXTENSIONS: ",".join(extensions)}
    _silence_errors()
    with preserve_interrupt_handler():
        return _with_delta(SparkSession.builder.config(map=conf).getOrCreate())


def _with_delta(spark: SparkSession) -> SparkSession:
    """Raises `ConfigurationError` for a session without Delta's classes; Spark only warns of a missing extension."""
    if jvm_of(spark) is not None and not has_delta(spark):
        msg = "the Spark session lacks Delta's jars: start it with --jars, as docs/cluster.md shows"
        raise ConfigurationError(msg)
    return spark


def _silence_errors() -> None:
    """Silence the loggers of errors that a caller gets as exceptions."""
    for logger in ("SQLQueryContextLogger", "py4j"):
        logging.getLogger(logger).setLevel(logging.CRITICAL + 1)
