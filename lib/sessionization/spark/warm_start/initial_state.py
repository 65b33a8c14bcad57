"""Seed a checkpoint from the tables, after the previous one was lost or had other device groups."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from sessionization.core.session_state import Rules
from sessionization.durations import format_duration
from sessionization.errors import CheckpointError
from sessionization.files import write_atomically
from sessionization.spark.checkpoint.folder import ARCHIVE, SESSIONIZE, Checkpoint
from sessionization.spark.checkpoint.spark_logs import newest_committed_batch, newest_started_batch
from sessionization.spark.input.topic_offsets import Offsets, parse_offsets
from sessionization.spark.job_context import JobContext
from sessionization.spark.operator.codec import STATE_SCHEMA, pack_seed
from sessionization.spark.operator.processor import GROUPING_KEY
from sessionization.spark.tables import rollup
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import RAW_EVENTS, SESSION_CHANGES, SESSIONS
from sessionization.spark.tables.upgrade import upgrade_sessions
from sessionization.spark.warm_start import read_position

_SEED_FOLDER = "seed"
_STARTS_FILE = "starts.json"


@dataclass(frozen=True, slots=True)
class InitialState:
    """The seed of a checkpoint: sessions by grouping key (`codec.pack_seed`), and the first topic offsets to read."""

    sessions: DataFrame | None = None
    start_offsets: Offsets | None = None


NO_INITIAL_STATE = InitialState()


def warm_start(context: JobContext) -> InitialState:
    """The initial state of a checkpoint that was created with `--from-sessions`; empty for any other checkpoint.

    Creates the state once, before any query has started a micro-batch, and stores it, because a repeated start
    must use the same sessions and offsets. A later start that finds the first micro-batch of `sessionize`
    committed removes the sessions. The offsets stay stored, but are not used once both reading queries have
    started. Messages that `archive` reads from then on are new to both queries. Prints once how to find the events
    that only `archive` had read.

    Raises `ConfigurationError` where the input folder holds files whose messages the tables have, or where the
    topics do not reach as far as the tables. With `--sink kafka`, also raises it where the topic holds changes
    that the tables lack. Raises `CheckpointError` where the stored state cannot be read or written.
    """
    spark, settings, checkpoint, location = context.spark, context.settings, context.checkpoint, context.location
    if not checkpoint.is_warm:
        return NO_INITIAL_STATE
    seed_folder, starts_file = checkpoint.folder / _SEED_FOLDER, checkpoint.folder / _STARTS_FILE
    starts: Offsets | None = None
    if not checkpoint.is_used:
        if settings.sink == "kafka":
            read_position.refuse_unlanded_changes(context)
        if settings.input is not None:
            read_position.refuse_files_already_read(spark, settings.input, location)
        else:
            starts = read_position.next_offsets(context)
            _write_starts(starts_file, starts)
        context.say(_advice(settings.rules))
        merge_recent_changes(context)
        sessions = seed_rows(spark, location, checkpoint)
        sessions.write.mode("overwrite").parquet(str(seed_folder))
    elif settings.source == "kafka" and not _have_started(checkpoint):
        starts = _read_starts(starts_file)
        if starts is not None:
            starts = read_position.with_new_partitions(context, starts)
    if newest_committed_batch(checkpoint.folder / SESSIONIZE) >= 0:
        shutil.rmtree(seed_folder, ignore_errors=True)
    return InitialState(spark.read.parquet(str(seed_folder)) if seed_folder.exists() else None, starts)


def _advice(rules: Rules) -> str:
    # An earlier backfill could merge, as live, a session that is not in the state. Nothing would ever end it.
    wait = format_duration(2 * rules.session_timeout_ms)
    return (
        f"--from-sessions: events that only {ARCHIVE} had read are in {RAW_EVENTS.name} and in no session; "
        f"later than {wait} after this start, `backfill --verify` finds them "
        "(docs/runbook.md, 'The checkpoint is lost')"
    )


def merge_recent_changes(context: JobContext) -> None:
    """Bring `sessions` up to date: the previous job may have ended before it merged its last changes."""
    spark, location, settings = context.spark, context.location, context.settings
    upgrade_sessions(spark, location, context.say)
    changes = location.read(spark.read, SESSION_CHANGES).where("change != 'heartbeat'")
    since = F.date_sub(F.to_date(F.max("updated_at")), 1).cast("string")
    day = location.read(spark.read, SESSIONS).agg(since).collect()[0][0]
    if day is not None:
        changes = changes.where(F.col("change_date") >= F.lit(day).cast("date"))
    if (oldest_ms := rollup.oldest_event_ms(changes)) is not None:
        first_day = rollup.search_since(oldest_ms, rollup.lookback(settings.max_event_age, settings.session_timeout))
        rollup.merge(location.delta_table(spark, SESSIONS), changes, first_day)


def seed_rows(spark: SparkSession, location: TableLocation, checkpoint: Checkpoint) -> DataFrame:
    """The state that an uninterrupted job would hold now: live sessions and recently closed ones.

    Returns:
        A row per grouping key: `grouping_key`, `seed` (`codec.pack_seed`). Heartbeats continue after the newest
        change.
    """
    rules = checkpoint.in_force.rules
    changes = location.read(spark.read, SESSION_CHANGES)
    day = F.lit(changes.agg(F.max("change_date").cast("string")).collect()[0][0]).cast("date")
    newest_ms = changes.where(F.col("change_date") == day).agg(F.unix_millis(F.max("processed_at"))).collect()[0][0]
    remembered = entries(location.read(spark.read, SESSIONS), newest_ms or 0, rules)
    return (
        remembered.withColumn(GROUPING_KEY, checkpoint.layout.grouping_key())
        .groupBy(GROUPING_KEY)
        .agg(pack_seed(newest_ms or 0).alias("seed"))
    )


def entries(sessions: DataFrame, now_ms: int, rules: Rules) -> DataFrame:
    """Rows of `device_id`, `session_id` and `STATE_SCHEMA`, for all sessions that would still be in the state."""
    known = sessions.where("started_at IS NOT NULL").withColumn("since_ms", F.unix_millis("updated_at"))
    is_live = F.col("status") == "live"
    # A comparison with the column itself, so that Delta skips the files of older days.
    is_recent = F.col("updated_at") > F.timestamp_millis(F.lit(now_ms - rules.late_retention_ms))
    recent = known.where(is_live | is_recent)
    # A closed session later than the live one, or beyond the bound per device, exists only because an entry had
    # left the state before.
    device = Window.partitionBy("device_id")
    by_age = device.orderBy(is_live.desc(), F.desc("since_ms"), "session_id")
    order = F.struct("started_at", "session_id")
    ranked = recent.withColumn("rank", F.row_number().over(by_age)).withColumn(
        "live_order", F.max(F.when(is_live, order)).over(device)
    )
    retained = ranked.where(is_live | F.col("live_order").isNull() | (order < F.col("live_order"))).where(
        F.col("rank") <= rules.max_sessions_per_device
    )

    def if_closed(column: Column) -> Column:
        return F.when(~is_live, column)

    fields = {
        "status": F.when(is_live, "live").otherwise("closed"),
        "platform": F.col("platform"),
        "account_id": F.col("account_id"),
        "started_ms": F.unix_millis("started_at"),
        "opened_ms": F.when(is_live, F.col("since_ms")),
        "ended_ms": if_closed(F.unix_millis("ended_at")),
        "end_reason": if_closed(F.col("end_reason")),
        "revision": if_closed(F.col("revision")),
        "foreground_s": if_closed(F.col("foreground_s")),
        "since_ms": if_closed(F.col("since_ms")),
        "place": if_closed(F.lit(rules.max_sessions_per_device) - F.col("rank")),
    }
    return retained.select("device_id", "session_id", *(fields[name].alias(name) for name in STATE_SCHEMA.names))


def _have_started(checkpoint: Checkpoint) -> bool:
    """Whether both reading queries have started a micro-batch; Spark's offset log then holds their positions."""
    return all(newest_started_batch(checkpoint.folder / query) >= 0 for query in (SESSIONIZE, ARCHIVE))


def _write_starts(file: Path, starts: Offsets | None) -> None:
    try:
        write_atomically(file, json.dumps(starts))
    except OSError as error:
        msg = f"{file} cannot be written ({error.strerror}): make room or see to its permissions, then start again"
        raise CheckpointError(msg) from error


def _read_starts(file: Path) -> Offsets | None:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return None if content is None else parse_offsets(content)
    except (OSError, ValueError) as error:
        msg = f"{file} is not readable ({error}): restore it from a backup; without it messages would be read again"
        raise CheckpointError(msg) from error
