"""Checks, in the place where the sessionize job will run, what it needs: storage, tables, lease, topics, a query.

The checks write into a folder in `--checkpoints` and into a table beside the job's tables, both named
`sessionization_preflight`, and delete both, also those that a killed run has left. What they create where it is missing
stays: the folders and, where a lease is checked, the table `job_lease`. So run them as the job's user. No record is
sent to a topic. The checks may run beside the job, where cores are free, but one run at a time.

Whether a checkpoint fits the options and the tables is not checked: the start says so before it changes anything.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.clock import wall_clock_ms
from sessionization.core.session_state import Rules, RulesInForce
from sessionization.durations import DAY_MS
from sessionization.errors import ConfigurationError, SessionizationError, StreamError
from sessionization.event_map.reading import DEFAULT, package_map
from sessionization.files import is_on_local_disk, remove_tree, replace_verified, write_atomically, write_new
from sessionization.hadoop_path import AnyPath
from sessionization.job.preparation import plain_errors, refuse_unreadable_input
from sessionization.job.shutdown import stop_query, wait_until_idle
from sessionization.message_limits import EventTimeLimits
from sessionization.ops.message_sample import as_json, sample_messages
from sessionization.ops.state_reader import StateReader
from sessionization.sample.sample_job import MOST_MESSAGES
from sessionization.sample.sample_report import report_on
from sessionization.say import Say
from sessionization.settings.kafka_options import uses_service_credential
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.folder import SESSIONIZE
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.checkpoint.take_log import TAKES_FOLDER
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.engine.session import job_session, session_for_uris
from sessionization.spark.input.avro_messages import check_registry
from sessionization.spark.input.file_taker import FileTaker
from sessionization.spark.input.kafka_source import check_topics
from sessionization.spark.input.parse import parse, valid_events
from sessionization.spark.input.source import file_messages
from sessionization.spark.input.source_tables import describe_source_tables
from sessionization.spark.input.stream_folders import MISSING, describe_input
from sessionization.spark.input.ticks import tick_stream
from sessionization.spark.input.topic_admin import refuse_compacted_topics
from sessionization.spark.output import real_time
from sessionization.spark.pipeline import session_changes
from sessionization.spark.tables.creation import create_table
from sessionization.spark.tables.lease import hold_lease
from sessionization.spark.tables.lease_table import Holder, StoredLease
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import JOB_LEASE, Table
from sessionization.time_limit import CheckTimeoutError, call_within

NAME = "sessionization_preflight"
"""The name of the trial table and folder."""
_TABLE = Table(NAME, statement=f"CREATE TABLE ${{schema}}.{NAME} (number bigint) USING delta")
_TRIAL_MAP = package_map(DEFAULT)
_BYTES = 1024 * 1024
_HEARTBEAT_MS = 1_000
_BEATS_WITHIN_S = 180
_STOP_S = 30
_LOG_DESTINATION = "spark.databricks.clusterUsageTags.clusterLogDestination"
"""Where Databricks says in which folder the cluster stores its logs."""
_WITHIN_S = 300.0
_LONGEST_CAUSE = 500


def preflight(settings: SessionizeSettings, say: Say) -> None:
    """Run every check, and print a line for each: what it saw, or why it failed. A check that hangs ends after minutes.

    Raises `ConfigurationError` at the end where a check has failed.
    """
    folder = settings.state.checkpoints / NAME
    with contextlib.ExitStack() as stack:
        with plain_errors("Spark cannot be started"):
            stack.enter_context(session_for_uris(settings, say))
            spark = stack.enter_context(job_session(settings=settings))
        failed = [name for name, check in _checks(spark, settings, say).items() if not _passes(name, check, say)]
        if {"input", "topics", "source tables"}.isdisjoint(failed) and not _passes(
            "messages", partial(check_messages, spark, settings, say), say
        ):
            failed.append("messages")
        if "storage" not in failed:
            remove_tree(folder)
        if "/Volumes/" in (destination := spark.conf.get(_LOG_DESTINATION, "") or ""):
            _passes("logs", partial(check_logs, destination), say, "warning")  # the job runs without
    if failed:
        msg = f"{', '.join(failed)} failed: do what the lines above say, and run this again"
        raise ConfigurationError(msg)
    say("all is well here: start sessionize with the same options")


def _checks(spark: SparkSession, settings: SessionizeSettings, say: Say) -> dict[str, Callable[[], str]]:
    """The checks by name, in order."""
    location, folder = TableLocation.of(settings.tables), settings.state.checkpoints / NAME
    checks: dict[str, Callable[[], str]] = {"storage": partial(check_storage, folder)}
    if settings.input_folder is not None:
        checks["input"] = partial(check_input, settings.input_folder, settings.event_map.stream_names)
    if settings.pace.mode == "real-time":
        checks["mode"] = check_mode
    if settings.source.type == "kafka":
        checks["topics"] = partial(check_topics_and_policy, spark, settings, say)
    if settings.source.type == "table":
        checks["source tables"] = partial(describe_source_tables, spark, settings)
    if settings.sink.type == "kafka":
        checks["output topic"] = partial(check_output_topic, spark, settings)
    checks["tables"] = partial(check_tables, spark, location)
    checks["lease"] = partial(check_lease, spark, location, say)
    checks["stream"] = partial(check_trial_query, spark, folder, say)
    return checks


def _passes(name: str, check: Callable[[], str], say: Say, if_not: str = "FAILED") -> bool:
    began_s = time.monotonic()
    try:
        found = call_within(_WITHIN_S, check)
    except CheckTimeoutError:
        cause = f"no answer within {_WITHIN_S:g} s: see the driver's log, and whether the storage or the brokers answer"
    except SessionizationError as error:
        cause = str(error)
    except OSError as error:
        cause = f"{error.filename or name} cannot be used ({error.strerror}): see to its space and its rights"
    except PySparkException as error:  # a right that is missing stands in a later line
        cause = " ".join(str(error).partition("JVM stacktrace:")[0].split())[:_LONGEST_CAUSE]
    except Py4JError as error:
        cause = root_cause(str(error))
    else:
        say(f"{'ok':8} {name}: {found} ({time.monotonic() - began_s:.1f} s)")
        return True
    say(f"{if_not:8} {name}: {cause}")
    return False


def check_storage(folder: AnyPath) -> str:
    """Write, replace and read a file in a folder, which is made anew."""
    remove_tree(folder)  # of a run that was killed
    folder.mkdir(parents=True, exist_ok=True)
    file, text = folder / "file", "x" * _BYTES
    for version, write in (("1", write_new), ("2", replace_verified)):
        write(file, version + text)
        if file.read_text(encoding="utf-8") != version + text:
            msg = f"{file} does not hold what was just written: give --checkpoints on storage with consistent reads"
            raise ConfigurationError(msg)
    return f"1 MB written, replaced and read in {folder.parent}"


def check_logs(destination: str) -> str:
    """Write a file where the logs of a cluster on Databricks go, a folder of a volume."""
    folder = Path(destination.removeprefix("dbfs:"))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{NAME}-{time.time_ns()}"
    write_new(file, "")
    file.unlink()
    return f"the cluster's logs go to {folder}, which can be written"


def check_input(folder: AnyPath, streams: Sequence[str]) -> str:
    """Count the files of each stream, at a URI the folders alone, and name those that are not read.

    Raises `ConfigurationError` where the input cannot be read, or all of its files lie beside the streams' folders.
    """
    refuse_unreadable_input(folder, streams)
    if isinstance(folder, Path):
        return describe_input(folder, streams)
    return "; ".join(f"{stream} is {'there' if (folder / stream).is_dir() else MISSING}" for stream in streams)


def check_mode() -> str:
    real_time.check_runtime()
    return "Real-Time Mode is switched on"


def check_topics_and_policy(spark: SparkSession, settings: SessionizeSettings, say: Say) -> str:
    check_topics(spark, settings, settings.topics)
    refuse_compacted_topics(spark, settings, settings.topics, lambda text: say(f"warning  topics: {text}"))
    check_registry(spark, settings.event_map)
    return f"{', '.join(settings.topics)} can be read"


def check_messages(spark: SparkSession, settings: SessionizeSettings, say: Say) -> str:
    """Print what the event map understands of a sample of the messages that are there."""
    messages = sample_messages(spark, settings, MOST_MESSAGES)
    if not messages:
        return "there are none so far"
    messages, notes = as_json(spark, settings.event_map, messages)
    has_activity = settings.rules.of_sessions.has_activity
    report = report_on(messages, settings.event_map, settings.rules.of_event_times, has_activity=has_activity)
    for line in (*notes, *report.lines):
        say(f"         messages: {line}")
    if report.all_skipped:
        return f"none of {len(messages):,} is an event of the kinds in the map, all are skipped"
    if not report.events:
        msg = f"--events {settings.events} makes no event of them: correct the map (docs/your-own-events.md)"
        raise ConfigurationError(msg)
    return f"{report.events:,} of {len(messages):,} are events"


def check_output_topic(spark: SparkSession, settings: SessionizeSettings) -> str:
    if uses_service_credential(settings.kafka.kafka_option):
        return f"{settings.output_topic} is not checked, because only Spark's Kafka source has the service credential"
    check_topics(spark, settings, (settings.output_topic,))
    return f"{settings.output_topic} is there; whether this job may write to it is not checked"


def check_tables(spark: SparkSession, location: TableLocation) -> str:
    """Create a table, append the same micro-batch twice, and drop the table."""
    if location.warehouse is not None:
        location.warehouse.mkdir(parents=True, exist_ok=True)
    _drop(spark, location)
    try:
        create_table(spark, location, _TABLE, owner=NAME)
        for _ in range(2):
            location.append(spark.range(1).toDF("number"), _TABLE, txnAppId=NAME, txnVersion="0")
        count = location.read(spark.read, _TABLE).count()
    finally:
        _drop(spark, location)
    if count != 1:
        msg = f"a micro-batch that was appended twice left {count} rows: this Delta ignores txnAppId; use a newer one"
        raise ConfigurationError(msg)
    return f"created, appended to twice, read and dropped in {location}"


def _drop(spark: SparkSession, location: TableLocation) -> None:
    if location.warehouse is not None:
        remove_tree(location.folder_of(_TABLE.name))
    else:
        spark.sql(f"DROP TABLE IF EXISTS {location.sql_name(_TABLE.name)}")


def check_lease(spark: SparkSession, location: TableLocation, say: Say) -> str:
    """Take a lease of this check's own, and see another run refused."""
    if location.warehouse is not None and is_on_local_disk(location.warehouse):
        return "not needed, because a lock of this machine keeps a second job away"
    stored, other = StoredLease(spark, location, NAME), Holder.this_run(spark, "preflight")
    with hold_lease(stored, "preflight", lambda text: say(f"warning  lease: {text}"), threading.Event()) as lease:
        if stored.take(replace(other, since_ms=0, until_ms=wall_clock_ms()), 0, None):
            msg = f"two runs took one lease in {location}: this storage lets a commit replace another; use another one"
            raise ConfigurationError(msg)
        lease.check()
    return f"a second run is refused, by {JOB_LEASE.name}"


def check_trial_query(spark: SparkSession, folder: AnyPath, say: Say) -> str:
    """Open a session, wait until its timer has made a heartbeat, and read it back from the state.

    The query has the name of `folder`, which holds its input and its checkpoint.
    """
    began_s, beats = time.monotonic(), 0
    input_folder, log_folder = folder / "input", folder / TAKES_FOLDER
    at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(wall_clock_ms() // 1_000))
    [stream, *_] = _TRIAL_MAP.stream_names
    start = {"appSessionId": 1, "eventId": _TRIAL_MAP.kinds.start[0], "hostPcId": "preflight", "timestamp": at}
    (input_folder / stream).mkdir(parents=True, exist_ok=True)
    write_atomically(input_folder / stream / "start.json", json.dumps(start) + "\n")
    taking: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if isinstance(input_folder, Path):  # again and again, because a volume may list a new file seconds later
        taking = FileTaker([input_folder / stream], log_folder, 1).running(_HEARTBEAT_MS)

    def count_beats(batch: DataFrame, _batch_id: int) -> None:
        nonlocal beats
        beats += batch.where(F.col("change") == "heartbeat").count()

    messages = file_messages(spark, input_folder, [stream], log_folder)
    events = valid_events(parse(messages, EventTimeLimits(DAY_MS, DAY_MS), _TRIAL_MAP))
    changes = session_changes(
        events, tick_stream(spark), StateLayout(), RulesInForce(Rules(heartbeat_ms=_HEARTBEAT_MS))
    )
    with taking:
        query = (
            changes.writeStream.foreachBatch(count_beats)
            .queryName(folder.name)
            .option("checkpointLocation", str((folder / SESSIONIZE).absolute()))
            .trigger(processingTime="1 second")  # ticks would make it run without a pause
            .start()
        )
        while query.isActive and beats == 0 and time.monotonic() < began_s + _BEATS_WITHIN_S:
            time.sleep(0.2)
    cause = query.exception()
    wait_until_idle(query, time.monotonic() + _STOP_S)
    stop_query(query, say)
    if cause is not None or beats == 0:
        why = f"no heartbeat within {_BEATS_WITHIN_S} s" if cause is None else root_cause(str(cause))
        msg = f"the trial query failed ({why}): fix the cause; without a heartbeat free some cores"
        raise StreamError(msg)
    [entry] = StateReader(spark, folder).sessions().collect()
    return f"a timer fired, and the state has the {entry.status} session"
