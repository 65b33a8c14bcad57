"""Checks, in the place where the sessionize job will run, what it needs: storage, lock, tables, state, topics, MLflow.

The checks write into a folder in `--checkpoints` and into a table beside the job's tables, both named
`sessionization_preflight`, and delete both, also those that a killed run has left. A missing warehouse folder and a
missing MLflow experiment stay. The checks may run beside the job, where cores are free, but one run at a time.
"""

import contextlib
import importlib.util
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.clock import wall_clock_ms
from sessionization.core.session_state import Rules, RulesInForce
from sessionization.durations import DAY_MS
from sessionization.errors import CheckpointError, ConfigurationError, SessionizationError, StreamError
from sessionization.files import is_on_local_disk, remove_tree, rename_or_copy, write_atomically
from sessionization.hadoop_path import AnyPath
from sessionization.job.preparation import refuse_unreadable
from sessionization.job.shutdown import stop_query, wait_until_idle
from sessionization.ml import configure_mlflow_import
from sessionization.ml.run_names import AUTO, OFF
from sessionization.monitor.batch_monitor import check_metrics_package
from sessionization.ops.state_reader import StateReader
from sessionization.optional_packages import how_to_install
from sessionization.say import Say
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.folder import SESSIONIZE
from sessionization.spark.checkpoint.folder_lock import lock_folder
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.engine.session import job_session, refuse_other_default_storage, session_for_uris
from sessionization.spark.input.kafka_source import check_topics
from sessionization.spark.input.parse import START_EVENT, EventTimeLimits, parse, valid_events
from sessionization.spark.input.source import file_messages
from sessionization.spark.input.ticks import tick_stream
from sessionization.spark.output import real_time
from sessionization.spark.pipeline import sessionize
from sessionization.spark.tables.creation import create_table
from sessionization.spark.tables.lease import hold_lease
from sessionization.spark.tables.lease_claim import Claim
from sessionization.spark.tables.lease_table import Holder, LeaseTable
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import JOB_LEASE, Column, Table
from sessionization.streams import PC_STREAM, STREAMS

T = TypeVar("T")
_FOLDER = "sessionization_preflight"
_TABLE = Table(_FOLDER, "Written and dropped by jobs/preflight.py", (Column("number", "bigint", "a row"),))
_DEVICE = "preflight"
_HEARTBEAT_MS = 1_000
_STREAM_S = 180
_STOP_S = 30
_POLL_S = 0.2
_BYTES = 1024 * 1024


def preflight(settings: SessionizeSettings, say: Say) -> None:
    """Run every check, and print a line for each.

    Raises `ConfigurationError` at the end where a check has failed.
    """
    checks, folder = _Checks(say), settings.checkpoints / _FOLDER
    with session_for_uris(settings, say), _trial_folder(folder):
        checks.run("storage", partial(_check_storage, folder))
        checks.run("lock", partial(_check_lock, folder))
        if settings.input is not None:
            checks.run("input", partial(_check_input, settings.input))
        if settings.metrics_port is not None:
            checks.run("metrics", partial(check_metrics_package, settings.metrics_port), lambda _: "can be served")
        with contextlib.ExitStack() as stack:
            start = partial(_start_engine, stack, settings)
            spark = checks.run("engine", start, lambda spark: f"Spark {spark.version}")
            if spark is not None:
                if settings.mode == "real-time":
                    checks.run("mode", real_time.check_runtime, lambda _: "Real-Time Mode is switched on")
                if settings.source == "kafka":
                    checks.run("topics", partial(_check_topics, spark, settings))
                location = TableLocation.of(settings)
                can_write = checks.run("tables", partial(_check_tables, spark, location)) is not None
                if can_write and (location.warehouse is None or not is_on_local_disk(location.warehouse)):
                    checks.run("lease", partial(_check_lease, spark, location))
                checks.run("stream", partial(_check_stream, spark, folder, say))
                checks.run("MLflow", partial(_check_mlflow, settings.mlflow), is_needed=False)
    if checks.failed:
        msg = f"{', '.join(checks.failed)} failed: do what the lines above say, and run this again"
        raise ConfigurationError(msg)
    say("all is well here: jobs/sessionize.py checks the rest, such as an older checkpoint, when it starts")


@dataclass
class _Checks:
    """Runs checks, and prints a line for each: what it saw, or the cause of its failure."""

    say: Say
    failed: list[str] = field(default_factory=list)

    def run(
        self, name: str, check: Callable[[], T], describe: Callable[[T], str] = str, *, is_needed: bool = True
    ) -> T | None:
        """The result of a check; None where it has failed. The job runs without what is not needed."""
        try:
            result = check()
        except SessionizationError as error:
            cause = str(error)
        except OSError as error:
            cause = f"{error.filename or name} cannot be used ({error.strerror}): see to its space and its rights"
        except (PySparkException, Py4JError) as error:
            cause = root_cause(str(error))
        except Exception as error:  # noqa: BLE001 - the other checks must run
            cause = f"{type(error).__name__}: {error}"
        else:
            self.say(f"ok       {name}: {describe(result)}")
            return result
        if is_needed:
            self.failed.append(name)
        self.say(f"FAILED   {name}: {cause}" if is_needed else f"warning  {name}: {cause}; the job runs without")
        return None


def _start_engine(stack: contextlib.ExitStack, settings: SessionizeSettings) -> SparkSession:
    spark = stack.enter_context(job_session())
    refuse_other_default_storage(spark, settings)
    return spark


@contextlib.contextmanager
def _trial_folder(folder: AnyPath) -> Iterator[None]:
    """Remove the folder afterwards, and the folder above it if this created it."""
    try:
        is_new = not folder.parent.exists()
    except OSError:  # the check of the storage reports it
        is_new = False
    remove_tree(folder)  # of a run that was killed
    try:
        yield
    finally:
        remove_tree(folder)
        if is_new:
            with contextlib.suppress(OSError):
                folder.parent.rmdir()


def _check_storage(folder: AnyPath) -> str:
    began_s = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    file, text = folder / "file", "x" * _BYTES
    for version in ("1", "2"):  # the second one replaces the first
        write_atomically(file, version + text)
        if file.read_text(encoding="utf-8") != version + text:
            msg = f"{file} does not hold what was just written: give --checkpoints on storage with consistent reads"
            raise ConfigurationError(msg)
    if [entry.name for entry in folder.iterdir()] != [file.name]:
        msg = f"{folder} lists other files than were written: give --checkpoints on storage with consistent listings"
        raise ConfigurationError(msg)
    how = ""
    if isinstance(file, Path):
        renamed = file.with_name("renamed")
        how = "" if rename_or_copy(file, renamed) else "; it cannot rename, so files are copied"
        renamed.unlink()
    return f"1 MB written, replaced, read and listed in {time.monotonic() - began_s:.2f} s in {folder.parent}{how}"


def _check_lock(folder: AnyPath) -> str:
    with lock_folder(folder, lambda _line: None) as is_exclusive:
        try:
            with lock_folder(folder, lambda _line: None, wait_s=0):
                return "this storage has no locks: a lease keeps a second job away"
        except CheckpointError:
            if is_exclusive:
                return "a second job is refused"
            return "a second job is refused on this machine; a lease keeps away one on another machine"


def _check_input(folder: AnyPath) -> str:
    counts = []
    try:
        refuse_unreadable(folder)
    except OSError as error:
        msg = f"{folder} cannot be used ({error.strerror}): give a place that exists"
        raise ConfigurationError(msg) from error
    for stream in STREAMS:
        files = sum(1 for _ in (folder / stream).glob("*.json")) if (folder / stream).is_dir() else None
        counts.append(f"{stream} is missing so far" if files is None else f"{stream} has {files:,} files")
    return ", ".join(counts)


def _check_topics(spark: SparkSession, settings: SessionizeSettings) -> str:
    check_topics(spark, settings, settings.topics)
    return f"{', '.join(settings.topics)} can be read"


def _check_tables(spark: SparkSession, location: TableLocation) -> str:
    """Create a table, append the same micro-batch twice, and drop the table."""
    began_s = time.monotonic()
    if location.warehouse is not None:
        location.warehouse.mkdir(parents=True, exist_ok=True)
    _drop(spark, location)
    try:
        create_table(spark, location, _TABLE, owner=_FOLDER)
        for _ in range(2):
            location.append(spark.range(1).toDF("number"), _TABLE, txnAppId=_FOLDER, txnVersion="0")
        count = location.read(spark.read, _TABLE).count()
    finally:
        _drop(spark, location)
    if count != 1:
        msg = f"a micro-batch that was appended twice left {count} rows: this Delta ignores txnAppId; use a newer one"
        raise ConfigurationError(msg)
    return f"created, appended to twice, read and dropped in {time.monotonic() - began_s:.0f} s in {location}"


def _check_lease(spark: SparkSession, location: TableLocation) -> str:
    """Take a lease of this check's own, see another run refused, and give it up."""
    began_s = time.monotonic()
    claim = Claim(_FOLDER, "preflight")
    with hold_lease(spark, location, claim, lambda _line: None, threading.Event()) as lease:
        table, other = LeaseTable(spark, location, claim.name), Holder.this_run(spark, claim.job)
        if table.take(replace(other, since_ms=0, until_ms=wall_clock_ms()), 0, None):
            msg = f"two runs took one lease in {location}: this storage lets a commit replace another; use another one"
            raise ConfigurationError(msg)
        lease.check()
    return f"a second run is refused; taken and given up in {time.monotonic() - began_s:.0f} s in {JOB_LEASE.name}"


def _drop(spark: SparkSession, location: TableLocation) -> None:
    if location.warehouse is not None:
        remove_tree(location.folder_of(_TABLE.name))
    else:
        spark.sql(f"DROP TABLE IF EXISTS {location.sql_name(_TABLE.name)}")


def _check_stream(spark: SparkSession, folder: AnyPath, say: Say) -> str:
    """Open a session, wait until its timer has made a heartbeat, and read it back from the state."""
    began_s = time.monotonic()
    _write_start(folder / "input" / PC_STREAM)
    beats = 0

    def count_beats(batch: DataFrame, _batch_id: int) -> None:
        nonlocal beats
        beats += batch.where(F.col("change") == "heartbeat").count()

    events = valid_events(parse(file_messages(spark, folder / "input"), EventTimeLimits(DAY_MS, DAY_MS)))
    rules = RulesInForce(Rules(heartbeat_ms=_HEARTBEAT_MS))
    changes = sessionize(events, tick_stream(spark), StateLayout(), rules)
    query = (
        changes.writeStream.foreachBatch(count_beats)
        .queryName(_FOLDER)
        .option("checkpointLocation", str((folder / SESSIONIZE).absolute()))
        .start()
    )
    while query.isActive and beats == 0 and time.monotonic() < began_s + _STREAM_S:
        time.sleep(_POLL_S)
    cause = query.exception()
    wait_until_idle(query, time.monotonic() + _STOP_S)
    stop_query(query, say)
    if cause is not None or beats == 0:
        why = f"no heartbeat within {_STREAM_S} s" if cause is None else root_cause(str(cause))
        msg = f"the trial query failed ({why}): fix the cause; without a heartbeat free some cores"
        raise StreamError(msg)
    [entry] = StateReader(spark, folder).sessions().collect()
    return f"a timer fired after {time.monotonic() - began_s:.0f} s; the state has the {entry.status} session"


def _write_start(folder: AnyPath) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(wall_clock_ms() // 1_000))
    message = {"appSessionId": 1, "eventId": START_EVENT, "hostPcId": _DEVICE, "timestamp": at}
    write_atomically(folder / "start.json", json.dumps(message) + "\n")


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
