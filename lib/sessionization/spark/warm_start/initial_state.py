"""Seed a checkpoint from the tables, after the previous one was lost or had other device groups."""

import json
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from sessionization.clock import day_start_ms
from sessionization.core.session_state import Rules
from sessionization.durations import MINUTE_MS, format_duration
from sessionization.errors import CheckpointError
from sessionization.files import remove_tree, write_atomically
from sessionization.hadoop_path import AnyPath
from sessionization.session_conf import copied_session
from sessionization.spark.checkpoint.folder import ARCHIVE, SESSIONIZE, Checkpoint
from sessionization.spark.checkpoint.spark_logs import newest_committed_batch, newest_started_batch
from sessionization.spark.input.topic_offsets import Offsets, parse_offsets
from sessionization.spark.job_context import JobContext
from sessionization.spark.operator.processor import GROUPING_KEY
from sessionization.spark.operator.seed import pack_seed
from sessionization.spark.operator.stored_entries import STATE_SCHEMA
from sessionization.spark.tables import rollup
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import RAW_EVENTS, SESSION_CHANGES, SESSIONS
from sessionization.spark.warm_start import read_position

_SEED_FOLDER = "seed"
_STARTS_FILE = "starts.json"
_LONG_MICRO_BATCH_MS = 5 * MINUTE_MS


@dataclass(frozen=True, slots=True)
class InitialState:
    """What the queries of a checkpoint begin with.

    Attributes:
        sessions: the seed of the state, by grouping key (`seed.pack_seed`).
        start_offsets: the first topic offsets to read.
        changes_version: the version of `session_changes` up to which `sessions` shows all changes. Without it the
            rollup begins with the whole table.
    """

    sessions: DataFrame | None = None
    start_offsets: Offsets | None = None
    changes_version: int | None = None


NO_INITIAL_STATE = InitialState()


def warm_start(context: JobContext) -> InitialState:
    """The initial state of a checkpoint that was created with `--from-sessions`; empty for any other checkpoint.

    Creates the state once, before any query has started a micro-batch, and stores it, because a repeated start
    must use the same sessions and offsets. A later start that finds the first micro-batch of `sessionize`
    committed removes the sessions. The offsets stay stored, but are not used once both reading queries have
    started. Messages that `archive` reads from then on are new to both queries. The version is not stored: a start
    that was cut off before the rollup began reads the whole table. Prints once how to find the events that only
    `archive` had read.

    Raises `ConfigurationError` where the input folder holds files whose messages the tables have, or where the
    topics do not reach as far as the tables. With `--sink kafka`, also raises it where the topic holds changes
    that the tables lack. Raises `CheckpointError` where the stored state cannot be read or written.
    """
    spark, settings, checkpoint, location = context.spark, context.settings, context.checkpoint, context.location
    if not checkpoint.is_warm:
        return NO_INITIAL_STATE
    seed_folder, starts_file = checkpoint.folder / _SEED_FOLDER, checkpoint.folder / _STARTS_FILE
    starts: Offsets | None = None
    changes_version: int | None = None
    if not checkpoint.is_used:
        if settings.sink == "kafka":
            read_position.refuse_unlanded_changes(context)
        if settings.input is not None:
            read_position.refuse_files_already_read(spark, settings.input, location)
        else:
            starts = read_position.next_offsets(context)
            _write_starts(starts_file, starts)
        context.say(_advice(settings.rules))
        changes_version = merge_recent_changes(context)
        seed_rows(spark, location, checkpoint).write.mode("overwrite").parquet(str(seed_folder))
    elif settings.source == "kafka" and not _have_started(checkpoint):
        starts = _read_starts(starts_file)
        if starts is not None:
            starts = read_position.with_new_partitions(context, starts)
    if newest_committed_batch(checkpoint.folder / SESSIONIZE) >= 0:
        remove_tree(seed_folder)  # which may leave a part, until a later start
        return InitialState(None, starts, changes_version)
    return InitialState(spark.read.parquet(str(seed_folder)), starts, changes_version)


def _advice(rules: Rules) -> str:
    # An earlier backfill could merge, as live, a session that is not in the state. Nothing would ever end it.
    wait = format_duration(2 * rules.session_timeout_ms)
    return (
        f"--from-sessions: events that only {ARCHIVE} had read are in {RAW_EVENTS.name} and in no session; "
        f"later than {wait} after this start, `backfill --verify` finds them "
        "(docs/runbook.md, 'The checkpoint is lost')"
    )


def merge_recent_changes(context: JobContext) -> int:
    """Bring `sessions` up to date: the previous job may have ended before it merged its last changes.

    Returns:
        A version of `session_changes` whose changes, and all earlier ones, are merged.
    """
    spark, location, settings = context.spark, context.location, context.settings
    version = location.newest_version(spark, SESSION_CHANGES)
    days = location.days(spark, SESSION_CHANGES)
    if days is None:
        return version
    lookback_ms = rollup.lookback(settings.max_event_age, settings.session_timeout)
    # A session that was changed on the newest day lies in these parts.
    recent_parts = F.col("_part") >= rollup.search_since(day_start_ms(days[1]), lookback_ms)
    merged_until = F.date_sub(F.to_date(F.max("updated_at")), 1)
    merged_day = location.read(spark.read, SESSIONS).where(recent_parts).agg(merged_until).collect()[0][0]
    changes = location.read(spark.read, SESSION_CHANGES).where("change != 'heartbeat'")
    if merged_day is not None:
        changes = changes.where(F.col("change_date") >= F.lit(merged_day))
    if (oldest_ms := rollup.oldest_event_ms(changes)) is not None:
        first_day = rollup.search_since(oldest_ms, lookback_ms)
        into = rollup.NumberedMerge.begin(copied_session(spark), location, context.check_lease)
        rollup.merge(into, changes, first_day)
    return version


def newest_clock_ms(spark: SparkSession, location: TableLocation) -> int:
    """The clock of the newest micro-batch whose changes are in `session_changes`; 0 without one.

    Looks among the rows shortly before the last append, and only if none is there in the whole last day.
    """
    days = location.days(spark, SESSION_CHANGES)
    if days is None:
        return 0
    last_day = location.read(spark.read, SESSION_CHANGES).where(F.col("change_date") == F.lit(days[1]))
    appended_ms = location.last_append_ms(spark, SESSION_CHANGES)
    newest = F.unix_millis(F.max("processed_at"))
    newest_ms: int | None = None
    if appended_ms is not None:
        since = F.timestamp_millis(F.lit(appended_ms - _LONG_MICRO_BATCH_MS))
        newest_ms = last_day.where(F.col("processed_at") >= since).agg(newest).collect()[0][0]
    return newest_ms or last_day.agg(newest).collect()[0][0] or 0


def seed_rows(spark: SparkSession, location: TableLocation, checkpoint: Checkpoint) -> DataFrame:
    """The state that an uninterrupted job would hold now: live sessions and recently closed ones.

    Returns:
        A row per grouping key: `grouping_key`, `seed` (`seed.pack_seed`). Heartbeats continue after the newest
        change.
    """
    rules = checkpoint.in_force.rules
    newest_ms = newest_clock_ms(spark, location)
    remembered = entries(location.read(spark.read, SESSIONS), newest_ms, rules)
    return (
        remembered.withColumn(GROUPING_KEY, checkpoint.layout.grouping_key())
        .groupBy(GROUPING_KEY)
        .agg(pack_seed(newest_ms).alias("seed"))
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


def _write_starts(file: AnyPath, starts: Offsets | None) -> None:
    try:
        write_atomically(file, json.dumps(starts))
    except OSError as error:
        msg = f"{file} cannot be written ({error.strerror}): make room or see to its permissions, then start again"
        raise CheckpointError(msg) from error


def _read_starts(file: AnyPath) -> Offsets | None:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return None if content is None else parse_offsets(content)
    except (OSError, ValueError) as error:
        msg = f"{file} is not readable ({error}): restore it from a backup; without it messages would be read again"
        raise CheckpointError(msg) from error
