"""Seed a checkpoint from the tables, after the previous one was lost or had other device groups."""

import json
from dataclasses import dataclass, field, replace
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.clock import utc, wall_clock_ms
from sessionization.durations import DAY_MS
from sessionization.errors import CheckpointError
from sessionization.files import remove_tree, write_atomically
from sessionization.hadoop_path import AnyPath
from sessionization.message_limits import SKIPPED, EventTimeLimits
from sessionization.spark.checkpoint.folder import ARCHIVE, SESSIONIZE, Checkpoint
from sessionization.spark.checkpoint.spark_logs import newest_committed_batch, newest_started_batch
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.engine.newest import newest_update_ms
from sessionization.spark.input.parse import event_types, parse
from sessionization.spark.input.source import glob_escaped
from sessionization.spark.input.source_tables import Versions
from sessionization.spark.input.topic_offsets import Offsets, parse_offsets
from sessionization.spark.job_context import JobContext
from sessionization.spark.operator.processor import GROUPING_KEY
from sessionization.spark.operator.seed import pack_seed
from sessionization.spark.replay.archived_events import archived_messages, read_events
from sessionization.spark.replay.micro_batch_clock import stream_clock
from sessionization.spark.tables import rollup
from sessionization.spark.tables.schemas import QUARANTINE, SESSION_CHANGES, SESSIONS
from sessionization.spark.warm_start import read_position, table_starts
from sessionization.spark.warm_start.remembered_state import (
    IS_ENTRY,
    MemorySpan,
    event_columns,
    newest_clock_ms,
    recent_changes,
    remembered_state,
    stored_entries,
    without_change,
)

_SEED_FOLDER = "seed"
_UNREAD_FOLDER = "unread"
_STARTS_FILE = "starts.json"


@dataclass(frozen=True, slots=True)
class InitialState:
    """What the queries of a checkpoint begin with.

    Attributes:
        sessions: the seed of the state, by grouping key (`seed.pack_seed`).
        start_offsets: the first topic offsets to read.
        changes_version: the version of `session_changes` up to which `sessions` shows all changes. Without it the
            rollup begins with the whole table.
        first_versions: the first versions of source tables to read.
        unread_events: a stream of the events that the previous job had archived and not applied, in the columns
            `parse.EVENT_COLUMNS`; None for a checkpoint that began without tables.
    """

    sessions: DataFrame | None = None
    start_offsets: Offsets | None = None
    changes_version: int | None = None
    unread_events: DataFrame | None = None
    first_versions: Versions = field(default_factory=dict)


NO_INITIAL_STATE = InitialState()


def warm_start(context: JobContext) -> InitialState:
    """The initial state of a checkpoint that was created with `--from-sessions`.

    For any other checkpoint it is empty, but for the first versions of source tables.

    Creates the state once, before any query has started a micro-batch, and stores it, because a repeated start must use
    the same sessions, events and offsets. A later start that finds the first micro-batch of `sessionize` committed
    removes the sessions and the events. The offsets stay stored, but are not used once both reading queries have
    started. Messages that `archive` reads from then on are new to both queries. The version is not stored: a start that
    was cut off before the rollup began reads the whole table.

    Raises `ConfigurationError` where the input folder holds files whose messages the tables have, or where the
    topics do not reach as far as the tables. With `--sink kafka`, also raises it where the topic holds changes
    that the tables lack. Raises `CheckpointError` where the stored offsets cannot be read.
    """
    spark, settings, checkpoint, location = context.spark, context.settings, context.checkpoint, context.location
    first_versions = table_starts.first_versions(context) if settings.source.type == "table" else {}
    if not checkpoint.is_warm:
        return replace(NO_INITIAL_STATE, first_versions=first_versions)
    seed_folder, unread_folder = checkpoint.folder / _SEED_FOLDER, checkpoint.folder / _UNREAD_FOLDER
    starts_file = checkpoint.folder / _STARTS_FILE
    starts: Offsets | None = None
    changes_version: int | None = None
    if not checkpoint.is_used:
        if settings.sink.type == "kafka":
            read_position.refuse_unlanded_changes(context)
        if settings.input_folder is not None:
            read_position.refuse_files_already_read(
                spark, settings.input_folder, settings.event_map.stream_names, location
            )
        elif settings.source.type == "kafka":
            starts = read_position.next_offsets(context)
            write_atomically(starts_file, json.dumps(starts))
        changes_version = merge_recent_changes(context)
        store_remembered_state(context, seed_folder, unread_folder, first_versions)
    elif settings.source.type == "kafka" and not _have_started(checkpoint):
        starts = _read_starts(starts_file)
    seed: DataFrame | None = None
    if newest_committed_batch(checkpoint.folder / SESSIONIZE) < 0:
        seed = spark.read.parquet(str(seed_folder))
    elif seed_folder.exists():
        spark.createDataFrame([], _unread_type(checkpoint.layout)).write.mode("overwrite").parquet(str(unread_folder))
        remove_tree(seed_folder)  # which may leave a part, until a later start
    unread = _stream_unread(spark, unread_folder, checkpoint.layout)
    return InitialState(seed, starts, changes_version, unread, first_versions)


def merge_recent_changes(context: JobContext) -> int:
    """Bring `sessions` up to date: the previous job may have ended before it merged its last changes.

    Returns:
        A version of `session_changes` whose changes, and all earlier ones, are merged.
    """
    spark, location, settings = context.spark, context.location, context.settings
    version = location.newest_version(spark, SESSION_CHANGES)
    changes = location.read(spark.read, SESSION_CHANGES).where("change != 'heartbeat'")
    merged_ms = newest_update_ms(location.read(spark.read, SESSIONS))
    if merged_ms is not None:
        changes = changes.where(F.col("change_date") >= F.lit(utc(merged_ms - DAY_MS).date()))
    if (oldest_ms := rollup.oldest_event_ms(changes)) is not None:
        lookback_ms = rollup.lookback(settings.rules.max_event_age_ms, settings.rules.session_timeout_ms)
        context.check_lease()
        since = rollup.search_since(oldest_ms, lookback_ms)
        rollup.merge(spark, location, changes, since, location.labels(spark))
    return version


def store_remembered_state(
    context: JobContext, seed_folder: AnyPath, unread_folder: AnyPath, first_versions: Versions
) -> None:
    """Store the state of the previous job's newest micro-batch, and the events that only `archive` had read.

    Where nothing is archived, those are the rows of the source tables before the first versions.

    Heartbeats continue after that micro-batch. Its Ends that wait for their Start are in the state.
    """
    spark, location, settings, checkpoint = context.spark, context.location, context.settings, context.checkpoint
    rules, layout, pinned = checkpoint.in_force.rules, checkpoint.layout, checkpoint.pinned
    span = MemorySpan(newest_clock_ms(spark, location), rules)
    clock = stream_clock(spark, location, span.changes_since_ms, wall_clock_ms())
    recent = recent_changes(location.read(spark.read, SESSION_CHANGES), span)
    since = F.timestamp_millis(F.lit(span.ingested_since_ms(clock)))
    versions = {stream: version - 1 for stream, version in first_versions.items() if version is not None}
    archived = archived_messages(
        spark, location, settings.event_map, archives=settings.archives, versions=versions
    ).where(F.col("ingested_at") >= since)
    limits = EventTimeLimits(pinned.max_clock_skew_ms, pinned.max_event_age_ms)
    if not settings.archives:
        quarantine_unread(context, archived, limits)
    read = read_events(archived, limits, settings.event_map, layout.labels, has_activity=rules.has_activity)
    events = without_change(read, recent)
    sessions, labels = location.read(spark.read, SESSIONS), location.labels(spark)
    entries = stored_entries(sessions, recent, labels, has_activity=rules.has_activity)
    state = remembered_state(entries, events, clock, span, layout).persist()
    try:
        unread = event_columns(state, layout)
        unread.write.mode("overwrite").parquet(str(unread_folder))
        context.say(f"--from-sessions: {unread.count():,} events that {ARCHIVE} alone had read come first")
        (
            state.where(IS_ENTRY)
            .withColumn(GROUPING_KEY, layout.grouping_key())
            .groupBy(GROUPING_KEY)
            .agg(pack_seed(span.newest_ms).alias("seed"))
            .write.mode("overwrite")
            .parquet(str(seed_folder))
        )
    finally:
        state.unpersist()


def quarantine_unread(context: JobContext, messages: DataFrame, limits: EventTimeLimits) -> None:
    """Append to `quarantine` what is no valid event of these messages, and not there yet.

    `archive` begins after them.
    """
    events, position = context.settings.event_map, ["stream", "ingested_at", "value"]
    known = context.location.read(context.spark.read, QUARANTINE).select(
        *(F.col(name).alias(f"_{name}") for name in position)
    )
    is_same = reduce(Column.__and__, (F.col(name).eqNullSafe(F.col(f"_{name}")) for name in position))
    parsed = parse(messages, limits, events, has_activity=context.checkpoint.in_force.rules.has_activity)
    invalid = parsed.where(f"reason != '{SKIPPED}'").join(known, is_same, "left_anti")
    context.check_lease()
    rows = invalid.withColumn("ingest_date", F.to_date(F.current_timestamp()))
    context.location.append(rows.select(*QUARANTINE.column_names), QUARANTINE)


def _unread_type(layout: StateLayout) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in event_types(layout).items())


def _stream_unread(spark: SparkSession, folder: AnyPath, layout: StateLayout) -> DataFrame:
    """Stream the events of `store_remembered_state`: the first micro-batch takes them all.

    A query never loses a source, so the folder stays when its events are done.
    """
    return spark.readStream.schema(_unread_type(layout)).parquet(glob_escaped(folder))


def _have_started(checkpoint: Checkpoint) -> bool:
    """Whether both reading queries have started a micro-batch; Spark's offset log then holds their positions."""
    return all(newest_started_batch(checkpoint.folder / query) >= 0 for query in (SESSIONIZE, ARCHIVE))


def _read_starts(file: AnyPath) -> Offsets | None:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return None if content is None else parse_offsets(content)
    except (OSError, ValueError) as error:
        msg = f"{file} is not readable ({error}): restore it from a backup; without it messages would be read again"
        raise CheckpointError(msg) from error
