"""The whole backfill: archived messages -> events -> rows of `sessions`, with the stream's parser, core and fold."""

import contextlib
import math
import threading
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.backfill.backfill_settings import BackfillSettings
from sessionization.clock import day_start_ms, wall_clock_ms
from sessionization.core.session_state import Rules
from sessionization.durations import DAY_MS
from sessionization.errors import CheckpointError, DifferenceError
from sessionization.event_map.model import EventMap
from sessionization.event_map.reading import DEFAULT, package_map
from sessionization.hadoop_path import AnyPath
from sessionization.message_limits import EventTimeLimits
from sessionization.say import Say
from sessionization.settings.rule_settings import RuleSettings
from sessionization.spark.checkpoint.backlog import describe_backlog, refuse_backlog
from sessionization.spark.checkpoint.folder import read_checkpoint
from sessionization.spark.checkpoint.folder_lock import lock_folder
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.engine.generated_code import GENERATED_CODE_CONF
from sessionization.spark.engine.session import job_session, session_for_uris
from sessionization.spark.input.avro_messages import check_registry
from sessionization.spark.replay.archived_events import archived_messages, read_events, replayed_changes
from sessionization.spark.replay.micro_batch_clock import MicroBatchClock, stream_clock
from sessionization.spark.tables import rollup
from sessionization.spark.tables.conflicts import explain_conflict
from sessionization.spark.tables.lease import STREAM_LEASE, hold_lease
from sessionization.spark.tables.lease_table import StoredLease, no_lease
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import BACKFILL, RAW_EVENTS, SESSION_CHANGES, SESSIONS

_MOST_LISTED = 20
_COMPARED_COLUMNS = (
    "account_id", "platform", "status", "started_at", "ended_at", "duration_ms", "foreground_s", "end_reason",
    "revision",
)  # fmt: skip
_EVENTS_PER_TASK = 200_000
_LEAST_TASKS = 2


@dataclass(frozen=True, slots=True)
class ReplayScope:
    """The ingest times of the messages to replay, and the rules and the event map that apply.

    `from_ms` (inclusive) and `to_ms` (exclusive) bound the ingest times.
    """

    from_ms: int
    to_ms: int
    rules: Rules
    limits: EventTimeLimits
    layout: StateLayout
    events: EventMap
    archives: bool = True
    """Whether `raw_events` has the messages; else the source tables have them."""

    @property
    def lead_ms(self) -> int:
        """How long before its first day the backfill starts to read messages.

        The lead is a day, or four times as long as an entry stays in state if that is longer. So the replayed state is
        complete when the first day begins.
        """
        rules = self.rules
        memory_ms = rules.session_timeout_ms + rules.late_retention_ms + 2 * rules.heartbeat_ms
        return min(self.from_ms, max(DAY_MS, 4 * memory_ms))

    @property
    def read_from_ms(self) -> int:
        """The first ingest time of the messages that are read."""
        return self.from_ms - self.lead_ms


def replay_scope(settings: BackfillSettings, now_ms: int) -> ReplayScope:
    """The scope from the settings and the checkpoint's rules; raises `CheckpointError` where that cannot be read."""
    from_ms = 0 if settings.first_day is None else day_start_ms(settings.first_day)
    to_ms = now_ms if settings.last_day is None else day_start_ms(settings.last_day + timedelta(days=1))
    if settings.state.checkpoints is None:
        events = settings.event_map or package_map(DEFAULT)
        layout = StateLayout(has_text_ids=events.has_text_ids)
        archives = events.stream_without_table() is not None
        return ReplayScope(from_ms, to_ms, Rules(), RuleSettings().of_event_times, layout, events, archives)
    checkpoint = read_checkpoint(settings.state.checkpoints)
    limits = EventTimeLimits(checkpoint.pinned.max_clock_skew_ms, checkpoint.pinned.max_event_age_ms)
    events = settings.event_map or checkpoint.events or package_map(DEFAULT)
    return ReplayScope(
        from_ms, to_ms, checkpoint.in_force.rules, limits, checkpoint.layout, events, checkpoint.pinned.archives
    )


def backfill(settings: BackfillSettings, say: Say) -> None:
    """Compute the rows, and write, verify or merge them as the settings say.

    Raises `ConfigurationError` when the tables do not exist, or Spark has another default storage. For a merge, raises
    `CheckpointError` when the job runs on folders, when the checkpoint does not own the tables, or as `refuse_backlog`
    does. Raises `DifferenceError` when `--verify` finds a difference, `IncompleteWorkError` when another program
    changed `sessions` meanwhile, and `StreamError` when this run has lost its lease.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(session_for_uris(settings, say, GENERATED_CODE_CONF))
        location, scope = TableLocation.of(settings.tables), replay_scope(settings, wall_clock_ms())
        is_exclusive = not settings.merge
        if settings.merge and location.warehouse is not None and settings.state.checkpoints is not None:
            stack.enter_context(lock_folder(settings.state.checkpoints, say))
            is_exclusive = stack.enter_context(location.lock_for_stream(say))
        spark = stack.enter_context(job_session(conf=GENERATED_CODE_CONF, settings=settings))
        location.require(spark, (*([RAW_EVENTS] if scope.archives else []), SESSION_CHANGES, SESSIONS))
        scope = replace(scope, layout=replace(scope.layout, labels=location.labels(spark)))
        check_registry(spark, scope.events)
        check_lease = no_lease
        if not is_exclusive:
            stored = StoredLease(spark, location, STREAM_LEASE)
            check_lease = stack.enter_context(hold_lease(stored, "backfill", say, threading.Event())).check
        if settings.state.checkpoints is not None:
            _check_backlog(spark, location, settings, settings.state.checkpoints, say)
        clock = stream_clock(spark, location, scope.read_from_ms, scope.to_ms)
        say(f"{len(clock.took):,} micro-batches of the stream are known in that time")
        folded = replay_sessions(spark, location, scope, clock)
        if settings.verify:
            verify(location.read(spark.read, SESSIONS), folded, (scope.from_ms, clock.until_ms), say)
        elif settings.merge:
            if clock.goes_on:
                say("sessions that were live when these days ended are left out: the stream went on")
                folded = folded.where("_shown_end IS NOT NULL")
            check_lease()
            _merge(spark, location, folded, scope, say)
        else:
            _write(spark, location, folded, say)


def _check_backlog(
    spark: SparkSession, location: TableLocation, settings: BackfillSettings, checkpoints: AnyPath, say: Say
) -> None:
    """Check for a backlog of the stream, which comes into `sessions` later.

    Its rows would overwrite merged ones, and until then `sessions` differs from the backfill.

    Raises `CheckpointError` for a merge; `--verify` only prints the backlog.
    """
    has_append_since = partial(location.has_append_since, spark, SESSION_CHANGES)
    if settings.merge:
        location.refuse_other_owner(spark, checkpoints)
        refuse_backlog(checkpoints, has_append_since)
    elif settings.verify and settings.last_day is None:
        try:
            backlog = describe_backlog(checkpoints, has_append_since)
        except CheckpointError as error:
            backlog = f"what the stream has not done is not known ({error})"
        if backlog:
            say(f"{backlog}: the newest rows may differ for that")


def replay_sessions(
    spark: SparkSession, location: TableLocation, scope: ReplayScope, clock: MicroBatchClock
) -> DataFrame:
    """The sessions of the scope, with the columns of `rollup.fold_by_session`."""
    begin = F.timestamp_millis(F.lit(scope.read_from_ms))
    # Not by `ingest_date`: a message may be taken days after its ingest time.
    end = F.timestamp_millis(F.lit(scope.to_ms - 1 - (scope.to_ms - 1) % DAY_MS + DAY_MS))
    messages = archived_messages(spark, location, scope.events, archives=scope.archives)
    raw = messages.where((F.col("ingested_at") >= begin) & (F.col("ingested_at") < end))
    partitions = max(_LEAST_TASKS, math.ceil(raw.count() / _EVENTS_PER_TASK))
    labels = scope.layout.labels
    events = read_events(raw, scope.limits, scope.events, labels, has_activity=scope.rules.has_activity)
    changes = replayed_changes(events, clock, scope.rules, scope.layout, partitions)
    return rollup.fold_by_session(changes, labels).where(
        F.col("updated_at") >= F.timestamp_millis(F.lit(scope.from_ms))
    )


def verify(sessions: DataFrame, folded: DataFrame, period_ms: tuple[int, int], say: Say) -> None:
    """Compare the folded rows with `sessions` within a period, and list the differences.

    Raises `DifferenceError` where a session differs.
    """
    begin, end = (F.timestamp_millis(F.lit(ms)) for ms in period_ms)
    compared = compare_sessions(sessions, rollup.to_session_rows(folded), begin, end).persist()
    try:
        count = compared.count()
        different = compared.where("what != ''")
        different_count = different.count()
        for row in different.orderBy("device_id", "session_id").limit(_MOST_LISTED).collect():
            say(f"device {row.device_id!r}, session {row.session_id}: {row.what}")
    finally:
        compared.unpersist()
    if different_count:
        msg = (
            f"{different_count:,} of {count:,} sessions differ, "
            f"the first {min(different_count, _MOST_LISTED)} are above (the stream's value, not the backfill's): "
            "docs/runbook.md says what may cause it; --merge folds the backfill's rows into sessions"
        )
        raise DifferenceError(msg)
    say(f"{count:,} sessions, all the same")


def compare_sessions(theirs: DataFrame, ours: DataFrame, begin: Column, end: Column) -> DataFrame:
    """Compare the stream's rows of `sessions` (`theirs`) with the backfill's (`ours`), in all columns but `updated_at`.

    Sessions that changed after `end` are left out. So are sessions that the stream changed before `begin` and the
    backfill does not have.

    Returns:
        A row per compared session: `device_id`, `session_id`, and `what`, the differences as text, empty where none.
    """
    both = (
        theirs.alias("t")
        .join(ours.alias("o"), ["device_id", "session_id"], "full")
        .where(F.greatest("t.updated_at", "o.updated_at") <= end)
        .where(F.col("o.status").isNotNull() | (F.col("t.updated_at") >= begin))
    )
    differing = [
        F.when(
            ~F.col(f"t.{name}").eqNullSafe(F.col(f"o.{name}")),
            F.concat(F.lit(f"{name} "), _as_text(f"t.{name}"), F.lit(", not "), _as_text(f"o.{name}")),
        )
        for name in (*_COMPARED_COLUMNS, *(name for name in ours.columns if name not in SESSIONS.column_names))
    ]
    what = (
        F.when(F.col("t.status").isNull(), F.lit("is not in sessions"))
        .when(F.col("o.status").isNull(), F.lit("is in sessions alone"))
        .otherwise(F.concat_ws("; ", *differing))
    )
    return both.select("device_id", "session_id", what.alias("what"))


def _write(spark: SparkSession, location: TableLocation, folded: DataFrame, say: Say) -> None:
    location.overwrite(rollup.to_session_rows(folded), BACKFILL)
    count = spark.sql(f"SELECT count(*) AS rows FROM {location.sql_name(BACKFILL.name)}").first()
    assert count is not None
    say(f"{count.rows:,} sessions are in {BACKFILL.name}")


def _merge(spark: SparkSession, location: TableLocation, folded: DataFrame, scope: ReplayScope, say: Say) -> None:
    lookback_ms = rollup.lookback(scope.limits.max_event_age_ms, scope.rules.session_timeout_ms)
    since = rollup.search_since(scope.from_ms - lookback_ms, lookback_ms)
    with explain_conflict(SESSIONS.name):
        counts = rollup.merge_folded(spark, location, folded, since)
    say(f"{counts.num_inserted_rows} sessions are new in sessions, {counts.num_updated_rows} are changed")


def _as_text(column: str) -> Column:
    return F.coalesce(F.col(column).cast("string"), F.lit("null"))
