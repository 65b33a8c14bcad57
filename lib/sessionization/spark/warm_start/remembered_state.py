"""The state that the previous job held at its newest micro-batch, and the events that it had archived but not applied.

The tables have all of it: `sessions` the live sessions, `session_changes` the closed ones, `raw_events` the Ends that
wait for their Start. An event whose change is not in `session_changes` was a repeat, waits for its Start, or was not
applied. The core tells which: an event that would change something was not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from operator import itemgetter

import numpy as np
import orjson
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.clock import utc
from sessionization.core.events import Activity, Event, SessionId, sort_events
from sessionization.core.heartbeat_grid import Grid, grid_for_key
from sessionization.core.session_rules import on_events
from sessionization.core.session_state import Closed, Live, Rules, SessionState, deadline_ms
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.engine.newest import newest_ms
from sessionization.spark.input.parse import EVENT_COLUMNS, LABELS, event_types
from sessionization.spark.operator.event_text import pack_event, unpack_event
from sessionization.spark.operator.stored_entries import decode_fields, fields_of
from sessionization.spark.replay.archived_events import clocked_rows, record_batches
from sessionization.spark.replay.micro_batch_clock import MicroBatchClock
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES, STREAM_PROGRESS

_OUTPUT = pa.schema([("device_id", pa.string()), ("text", pa.string())])
IS_ENTRY, IS_EVENT = "text LIKE '{%'", "text LIKE '[%'"
"""Which rows of `remembered_state` are entries, and which are events; SQL."""


def newest_clock_ms(spark: SparkSession, location: TableLocation) -> int:
    """The clock of the newest micro-batch in the tables; 0 without one.

    `stream_progress` is some seconds behind `session_changes`, of which only the rows since then are read.
    """
    progress = location.read(spark.read, STREAM_PROGRESS).where("query = 'sessionize'")
    reported_ms = newest_ms(progress, "processed_at") or 0
    later = _changes_since(location.read(spark.read, SESSION_CHANGES), reported_ms)
    return newest_ms(later, "processed_at") or reported_ms


@dataclass(frozen=True, slots=True)
class MemorySpan:
    """The processing times from which the state at the newest micro-batch still remembers something."""

    newest_ms: int
    """The clock of the newest micro-batch."""
    rules: Rules

    @property
    def remembered_since_ms(self) -> int:
        """What was closed or seen before this is forgotten at `newest_ms`: a timer fires within one heartbeat."""
        return max(0, self.newest_ms - self.rules.late_retention_ms - self.rules.heartbeat_ms)

    @property
    def changes_since_ms(self) -> int:
        """What was closed before this was forgotten before `remembered_since_ms`."""
        return max(0, self.remembered_since_ms - self.rules.late_retention_ms - self.rules.heartbeat_ms)

    def ingested_since_ms(self, clock: MicroBatchClock) -> int:
        """The oldest ingest time of messages that were taken at or after `remembered_since_ms`."""
        earlier = int(np.searchsorted(clock.took, self.remembered_since_ms, "left"))
        if earlier:
            return int(clock.up_to[earlier - 1]) + 1
        return min(self.remembered_since_ms, clock.from_ms) if len(clock.took) else self.remembered_since_ms


def recent_changes(changes: DataFrame, span: MemorySpan) -> DataFrame:
    """The rows of `session_changes` since `span.changes_since_ms`, without heartbeats."""
    return _changes_since(changes, span.changes_since_ms).where("change != 'heartbeat'")


def _changes_since(changes: DataFrame, since_ms: int) -> DataFrame:
    since = F.timestamp_millis(F.lit(since_ms))
    return changes.where((F.col("change_date") >= F.lit(utc(since_ms).date())) & (F.col("processed_at") >= since))


def stored_entries(
    sessions: DataFrame, recent: DataFrame, labels: Sequence[str] = (), *, has_activity: bool = False
) -> DataFrame:
    """Live sessions from `sessions`, and closed ones from `recent_changes`, also some that were forgotten since.

    With `has_activity` they have signs of life: those of their Start, or of when they were resumed. `resume` adds the
    Activities since then.

    Returns:
        `device_id`, and `text`: the session's id and the fields of its entry (`decode_fields`) as a JSON object.
    """
    newest = F.struct(F.col("processed_at"), F.col("revision"))
    ends = (
        _with_first_end(recent) if has_activity else recent.where("change = 'ended'").withColumn("first_end", F.lit(0))
    )
    shown = ("platform", "account_id", "started_at", "ended_at", "end_reason", "revision", "foreground_s", *labels)
    closed = (
        ends.where("started_at IS NOT NULL")
        .groupBy("device_id", "session_id")
        .agg(
            F.max_by(F.struct(*shown), newest).alias("last"),
            F.max(F.when(F.col("revision") == F.col("first_end"), F.unix_millis("processed_at"))).alias("since_ms"),
        )
        .where("since_ms IS NOT NULL")
        .select("device_id", "session_id", "since_ms", "last.*")
    )
    live = sessions.where("status = 'live' AND started_at IS NOT NULL")
    values = ", ".join(f"`{name}`" for name in labels)
    common = (
        "session_id", "platform", "account_id", "unix_millis(started_at) AS started_ms",
        *([f"array({values}) AS labels"] if labels else []),
    )  # fmt: skip
    of_live = (*common, "'live' AS status", "unix_millis(updated_at) AS opened_ms")
    if has_activity:
        of_live += (
            "unix_millis(started_at) AS ended_ms", "unix_millis(updated_at) AS since_ms",
            "coalesce(_shown_end.revision + 1, 0) AS revision",
        )  # fmt: skip
    of_closed = (
        *common, "'closed' AS status", "unix_millis(ended_at) AS ended_ms", "end_reason", "revision", "foreground_s",
        "since_ms", "0 AS place", *(["since_ms AS opened_ms"] if has_activity else []),
    )  # fmt: skip
    entries = (
        rows.select("device_id", F.to_json(F.struct(*map(F.expr, fields))).alias("text"))
        for rows, fields in ((live, of_live), (closed, of_closed))
    )
    return reduce(DataFrame.union, entries)


def _with_first_end(changes: DataFrame) -> DataFrame:
    """The ends, with `first_end`: the revision of the one that closed the session, at first or after a `resumed`."""
    resumed = (
        changes.where("change = 'resumed'")
        .groupBy("device_id", "session_id")
        .agg((F.max("revision") + 1).alias("after_resumed"))
    )
    joined = changes.where("change = 'ended'").join(resumed, ["device_id", "session_id"], "left")
    return joined.withColumn("first_end", F.coalesce("after_resumed", F.lit(0)))


def without_change(events: DataFrame, recent: DataFrame) -> DataFrame:
    """The events of which `recent_changes` shows nothing: neither a Start, nor a reported or orphaned end."""
    is_orphaned = F.col("end_reason") == "orphaned"
    changed = recent.where("change = 'started' OR end_reason IN ('reported', 'orphaned')").select(
        F.col("device_id").alias("of_device"),
        F.col("session_id").alias("of_session"),
        (F.col("change") == "started").alias("by_start"),
        F.unix_millis(F.when(is_orphaned, F.col("ended_at")).otherwise(F.col("event_at"))).alias("at_ms"),
        F.when(~F.coalesce(is_orphaned, F.lit(False)), F.unix_millis("ingested_at")).alias("of_ingest_ms"),
    )
    same = F.expr(
        "device_id = of_device AND session_id = of_session AND is_start = by_start AND event_ms = at_ms "
        "AND ingested_ms = coalesce(of_ingest_ms, ingested_ms)"
    )
    return events.join(changed, same, "left_anti")


def remembered_state(
    entries: DataFrame, events: DataFrame, clock: MicroBatchClock, span: MemorySpan, layout: StateLayout
) -> DataFrame:
    """The state at `span.newest_ms`, and the events that were not applied to it.

    Args:
        entries: `stored_entries`.
        events: `without_change`.
        clock: the clock of the previous job's micro-batches.
        span: the newest micro-batch, and the rules.
        layout: the new checkpoint's.

    Returns:
        `device_id`, and `text`: a JSON object per entry (`seed.pack_seed`), a JSON array per event (`pack_event`).
    """

    def resume(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return record_batches(_resume_devices(batches, clock, span, layout), _OUTPUT)

    no_time = F.lit(-1).cast("bigint").alias("ingested_ms")  # entries come before events
    rows = entries.select("device_id", no_time, "text").union(
        events.select("device_id", "ingested_ms", pack_event(layout))
    )
    by_device = rows.repartition("device_id").sortWithinPartitions("device_id", "ingested_ms")
    return by_device.mapInArrow(resume, "device_id string, text string")


def event_columns(rows: DataFrame, layout: StateLayout) -> DataFrame:
    """The events of `remembered_state`, with the columns `parse.event_types`."""
    fields = rows.where(IS_EVENT).select(F.from_json("text", "array<string>").alias("field"))
    types = event_types(layout)
    labels = {LABELS: F.slice("field", len(EVENT_COLUMNS) + 1, len(layout.labels))} if layout.labels else {}
    columns = {name: F.col("field")[at].cast(types[name]) for at, name in enumerate(EVENT_COLUMNS)} | labels
    return fields.select(*(column.alias(name) for name, column in columns.items()))


def _resume_devices(
    batches: Iterable[pa.RecordBatch], clock: MicroBatchClock, span: MemorySpan, layout: StateLayout
) -> Iterator[tuple[str, str]]:
    for device_id, rows in groupby(clocked_rows(batches, clock), itemgetter(0)):
        entries: dict[SessionId, SessionState] = {}
        texts: dict[Event, str] = {}
        micro_batches: dict[int, list[Event]] = {}
        for _, now_ms, text in rows:
            if text.startswith("{"):
                fields = orjson.loads(text)
                entries[fields["session_id"]] = decode_fields(fields, len(layout.labels))
            else:
                _, event = unpack_event(text, layout)
                texts[event] = text
                micro_batches.setdefault(now_ms, []).append(event)
        grid = grid_for_key(layout.grouping_key_of(device_id), span.rules.heartbeat_ms)
        sessions, unread = resume(entries, micro_batches, grid, span)
        yield from ((device_id, _entry_text(device_id, *session)) for session in sessions.items())
        yield from ((device_id, texts[event]) for event in unread)


def _entry_text(device_id: str, session_id: SessionId, entry: SessionState) -> str:
    return orjson.dumps({"device_id": device_id, "session_id": session_id} | fields_of(entry)).decode()


def resume(
    entries: Mapping[SessionId, SessionState], micro_batches: Mapping[int, list[Event]], grid: Grid, span: MemorySpan
) -> tuple[dict[SessionId, SessionState], list[Event]]:
    """A device's sessions at `span.newest_ms`, and the events that were not applied.

    An event that changes nothing was applied, or it makes no difference: a repeat, or an End that waits for its Start.
    Any other Start or End was not applied, as `session_changes` does not show its change. An Activity that would change
    something now was late when it came, or its change is in `session_changes`: it is left out, as weak evidence may be.

    Args:
        entries: the device's live sessions, and the closed ones with the times at which they were closed.
        micro_batches: the events without a change, by the clock of the micro-batch that took them, ascending.
        grid: the grid of the device's grouping key.
        span: the newest micro-batch, and the rules.
    """
    rules = span.rules
    sessions, unread = _in_order(entries), list[Event]()
    for now_ms, events in micro_batches.items():
        if now_ms > span.newest_ms:
            unread += events
        elif now_ms >= span.remembered_since_ms:
            sessions = _remembered(sessions, now_ms - 1, grid, rules)  # events come before the timers
            for event in sort_events(events):
                outcome = on_events(sessions, [event], now_ms, rules)
                if not outcome.changes:
                    sessions = outcome.sessions
                elif not isinstance(event, Activity):
                    unread.append(event)
    return _within_bound(_remembered(sessions, span.newest_ms, grid, rules), rules), unread


def _since_ms(entry: SessionState) -> int:
    if isinstance(entry, Live):
        return entry.opened_ms
    return entry.closed_ms if isinstance(entry, Closed) else entry.seen_ms


def _in_order(entries: Mapping[SessionId, SessionState]) -> dict[SessionId, SessionState]:
    """The entries with their `closing_order`: by when they were closed."""
    ordered = sorted(entries.items(), key=lambda session: (_since_ms(session[1]), session[0]))
    return {
        session_id: entry if isinstance(entry, Live) else replace(entry, closing_order=place)
        for place, (session_id, entry) in enumerate(ordered)
    }


def _remembered(
    sessions: Mapping[SessionId, SessionState], now_ms: int, grid: Grid, rules: Rules
) -> dict[SessionId, SessionState]:
    """The sessions without the closed ones that a timer has removed by `now_ms`.

    An End whose timer was due stays: `session_changes` has no orphaned end of it.
    """
    return {
        session_id: entry
        for session_id, entry in sessions.items()
        if not isinstance(entry, Closed) or grid.at_or_after(deadline_ms(entry, rules)) > now_ms
    }


def _within_bound(sessions: Mapping[SessionId, SessionState], rules: Rules) -> dict[SessionId, SessionState]:
    """The sessions without the closed ones that are beyond the bound, or later than the live one."""
    order_of_live = (
        (entry.started_ms, session_id) for session_id, entry in sessions.items() if isinstance(entry, Live)
    )
    live = max(order_of_live, default=None)
    closed = sorted(
        (entry.closing_order, session_id) for session_id, entry in sessions.items() if isinstance(entry, Closed)
    )
    evicted = {session_id for _, session_id in closed[: max(0, len(sessions) - rules.max_sessions_per_device)]}
    return {
        session_id: entry
        for session_id, entry in sessions.items()
        if not isinstance(entry, Closed)
        or (session_id not in evicted and (live is None or (entry.started_ms, session_id) < live))
    }
