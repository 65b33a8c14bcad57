"""Checks, in the place where the sessionize job will run, what it needs: storage, lock, tables, state, topics, MLflow.

The checks write into a folder in `--checkpoints` and into a table beside the job's tables, both named
`sessionization_preflight`, and delete both, also those that a killed run has left. What they create where it is missing
stays: the table `job_lease`, where a lease is checked, the warehouse folder, and the MLflow experiment. So run them as
the job's user. No record is sent to a topic. The checks may run beside the job, where cores are free, but one run at a
time. Each has a time limit.
"""

import contextlib
import importlib.util
from collections.abc import Iterator
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sessionization.errors import ConfigurationError, SessionizationError
from sessionization.files import is_on_local_disk, remove_tree
from sessionization.hadoop_path import AnyPath
from sessionization.job.preparation import check_metrics_package
from sessionization.ml import configure_mlflow_import
from sessionization.ml.run_names import AUTO, OFF
from sessionization.ops.check_list import CheckList, Limit
from sessionization.ops.storage_checks import check_input, check_lock, check_logs, check_storage
from sessionization.ops.table_checks import NAME, check_checkpoint, check_lease, check_tables
from sessionization.ops.trial_query import check_trial_query
from sessionization.optional_packages import how_to_install
from sessionization.say import Say
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.engine.session import has_uri, job_session, refuse_other_default_storage, session_for_uris
from sessionization.spark.input.kafka_source import check_topics
from sessionization.spark.input.topic_admin import refuse_compacted_topics
from sessionization.spark.output import real_time
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.s3_commits import single_driver_warning
from sessionization.time_limit import CheckTimeoutError, call_within

_LOG_DESTINATION = "spark.databricks.clusterUsageTags.clusterLogDestination"
"""Where Databricks says in which folder the cluster stores its logs."""
_PACKAGES = Limit(60, "see whether the disk with Python's packages is alive")
_STORAGE = Limit(60, "see whether its mount or its servers are alive")
_ENGINE = Limit(300, "see the driver's log, and whether the cluster has free memory")
_SPARK = Limit(300, "see whether the cluster has free cores, and whether the storage of the tables is alive")
_BROKERS = Limit(90, "see whether the brokers, and a firewall before them, let this machine in")
_MLFLOW = Limit(120, "see whether the MLflow server is alive, or give --mlflow off")
_STOP = Limit(60, "see whether its processes are still there")


def preflight(settings: SessionizeSettings, say: Say) -> None:
    """Run every check, and print a line for each.

    Raises `ConfigurationError` at the end where a check has failed.
    """
    checks = CheckList(say, TableLocation.of(settings.tables))
    folder = settings.state.checkpoints / NAME
    if settings.monitoring.metrics_port is not None:
        checks.run(
            "metrics",
            partial(check_metrics_package, settings.monitoring.metrics_port),
            _PACKAGES,
            lambda _: "can be served",
        )
    with _stack_that_closes_in_time(say) as stack:
        start = partial(_start_engine, stack, settings, say)
        spark = checks.run("engine", start, _ENGINE, lambda spark: f"Spark {spark.version}")
        if spark is not None or not has_uri(settings):
            with _trial_folder(folder):
                _check_folders(checks, settings, folder)
                if spark is not None:
                    _check_on_engine(checks, spark, settings, folder)
    if checks.failed:
        msg = f"{', '.join(checks.failed)} failed: do what the lines above say, and run this again"
        raise ConfigurationError(msg)
    say("all is well here: start jobs/sessionize.py with the same options")


def _check_folders(checks: CheckList, settings: SessionizeSettings, folder: AnyPath) -> None:
    checks.run("storage", partial(check_storage, folder), _STORAGE)
    checks.run("lock", partial(check_lock, folder), _STORAGE)
    if settings.input_folder is not None:
        checks.run("input", partial(check_input, settings.input_folder), _STORAGE)


def _check_on_engine(checks: CheckList, spark: SparkSession, settings: SessionizeSettings, folder: AnyPath) -> None:
    location = checks.location
    if settings.pace.mode == "real-time":
        checks.run("mode", real_time.check_runtime, _ENGINE, lambda _: "Real-Time Mode is switched on")
    if settings.source.type == "kafka":
        checks.run("topics", partial(_check_topics, spark, settings, checks.say), _BROKERS)
    if settings.sink.type == "kafka":
        checks.run("output topic", partial(_check_output_topic, spark, settings), _BROKERS)
    can_write = checks.run("tables", partial(check_tables, spark, location), _SPARK) is not None
    if can_write and not _has_locks(location):
        checks.run("lease", partial(check_lease, spark, location), _SPARK)
        _warn_of_single_driver(checks, spark)
    checks.run("checkpoint", partial(check_checkpoint, spark, settings, location), _SPARK)
    checks.run("stream", partial(check_trial_query, spark, folder, checks.say), _SPARK)
    if "/Volumes/" in (destination := spark.conf.get(_LOG_DESTINATION, "") or ""):
        checks.run("logs", partial(check_logs, destination), _STORAGE, is_needed=False)
    checks.run("MLflow", partial(_check_mlflow, settings.monitoring.mlflow), _MLFLOW, is_needed=False)


def _has_locks(location: TableLocation) -> bool:
    """Whether the tables are on a disk of this machine; a mount that does not answer is none."""
    if location.warehouse is not None:
        with contextlib.suppress(CheckTimeoutError):
            return call_within(_STORAGE.seconds, partial(is_on_local_disk, location.warehouse))
    return False


def _warn_of_single_driver(checks: CheckList, spark: SparkSession) -> None:
    """Where the lease has failed, the warning may fail too."""
    with contextlib.suppress(CheckTimeoutError, PySparkException, Py4JError):
        warning = call_within(_SPARK.seconds, partial(single_driver_warning, spark, checks.location))
        if warning is not None:
            checks.say(f"warning  commits: {warning}")


@contextlib.contextmanager
def _stack_that_closes_in_time(say: Say) -> Iterator[contextlib.ExitStack]:
    """A stack whose end has a time limit, because an engine that hangs may never stop."""
    stack = contextlib.ExitStack()
    try:
        yield stack
    finally:
        try:
            call_within(_STOP.seconds, stack.close)
        except CheckTimeoutError:
            say(f"warning  engine: it does not stop within {_STOP.seconds:g} s: {_STOP.advice}")


def _start_engine(stack: contextlib.ExitStack, settings: SessionizeSettings, say: Say) -> SparkSession:
    stack.enter_context(session_for_uris(settings, say))
    spark = stack.enter_context(job_session())
    refuse_other_default_storage(spark, settings)
    return spark


@contextlib.contextmanager
def _trial_folder(folder: AnyPath) -> Iterator[None]:
    """Remove the folder afterwards, and the folder above it if that did not exist. A dead mount is left alone."""

    def remove() -> None:
        remove_tree(folder)
        if is_new:
            with contextlib.suppress(OSError):
                folder.parent.rmdir()

    is_new = False
    # The check of the storage reports it.
    with contextlib.suppress(OSError, Py4JError, SessionizationError, CheckTimeoutError):
        is_new = not call_within(_STORAGE.seconds, folder.parent.exists)
    try:
        yield
    finally:
        with contextlib.suppress(Py4JError, SessionizationError, CheckTimeoutError):
            call_within(_STORAGE.seconds, remove)


def _check_topics(spark: SparkSession, settings: SessionizeSettings, say: Say) -> str:
    check_topics(spark, settings, settings.topics)
    refuse_compacted_topics(spark, settings, settings.topics, lambda text: say(f"warning  topics: {text}"))
    return f"{', '.join(settings.topics)} can be read"


def _check_output_topic(spark: SparkSession, settings: SessionizeSettings) -> str:
    check_topics(spark, settings, (settings.output_topic,))
    return f"{settings.output_topic} is there; whether this job may write it is not checked"


def _check_mlflow(experiment: str) -> str:
    if experiment == OFF:
        return "off"
    if importlib.util.find_spec("mlflow") is None:
        if experiment == AUTO:
            return "not installed, so no run is stored"
        msg = f"--mlflow {experiment}: MLflow is not installed; {how_to_install('mlflow')}"
        raise ConfigurationError(msg)
    configure_mlflow_import()
    from mlflow.exceptions import MlflowException

    from sessionization.ml.mlflow_run import open_experiment

    try:
        open_experiment(experiment)
    except MlflowException as error:
        msg = f"--mlflow {experiment} cannot be used ({root_cause(str(error))})"
        raise ConfigurationError(msg) from error
    return f"the experiment of --mlflow {experiment} can be used"
