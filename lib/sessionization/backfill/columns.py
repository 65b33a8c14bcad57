"""Turn columns of events into rows of sessions: plain histories column by column, all others through the core.

A stretch of a device's history ends with a pause after which the state holds nothing of the device. Most stretches are
plain: only Start, End, Start, End, each End after its own Start and before the timeout. Their rows need no replay.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from sessionization.backfill.micro_batch_clock import Instants, MicroBatchClock
from sessionization.backfill.replay import fold_changes, replay
from sessionization.core.events import End, EndReason, Event, Platform, Start
from sessionization.core.heartbeat_grid import grid_for_key
from sessionization.core.session_state import Rules
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.input.parse import EVENT_COLUMNS

ROW_SCHEMA = pa.schema(
    [
        ("device_id", pa.string()),
        ("session_id", pa.int64()),
        ("started_ms", pa.int64()),
        ("start_ms", pa.int64()),
        ("start_account_id", pa.string()),
        ("start_platform", pa.string()),
        ("rank", pa.int32()),
        ("revision", pa.int32()),
        ("ended_ms", pa.int64()),
        ("foreground_s", pa.int64()),
        ("end_account_id", pa.string()),
        ("end_reason", pa.string()),
        ("end_platform", pa.string()),
        ("updated_ms", pa.int64()),
    ]
)
"""A folded session in flat columns: `start_ms` is null without an accepted Start, `rank` is null while it is live."""

_Marks = NDArray[np.bool_]
_EVENTS_PER_SESSION = 2
_PLATFORMS = {platform.value: platform for platform in Platform}


@dataclass(frozen=True)
class ArrowReplay:
    """Replays the histories of devices.

    Attributes:
        rules: the rules in force.
        clock: the clock of the stream's micro-batches.
        layout: the stream's; it decides the phase of the timers.
        from_ms: sessions whose newest change is before this are left out.
    """

    rules: Rules
    clock: MicroBatchClock
    layout: StateLayout = field(default_factory=StateLayout)
    from_ms: int = 0

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For `mapInArrow`: takes batches of `parse.EVENT_COLUMNS`, sorted by device and then by ingest time."""
        incomplete: pa.Table | None = None
        for batch in batches:
            incoming = pa.Table.from_batches([batch])
            table = incoming if incomplete is None else pa.concat_tables([incomplete, incoming])
            if not table.num_rows:
                continue
            device = table["device_id"]
            complete = pc.index(device, device[-1]).as_py()
            incomplete = table.slice(complete)
            if complete:
                yield from self.rows(table.slice(0, complete)).to_batches()
        if incomplete is not None and incomplete.num_rows:
            yield from self.rows(incomplete).to_batches()

    def rows(self, events: pa.Table) -> pa.Table:
        """The rows (`ROW_SCHEMA`) of devices; `events` must hold all events of each device."""
        events = events.combine_chunks()
        now_ms = self.clock.of_messages(_numbers(events, "ingested_ms"))
        device = _run_numbers(events["device_id"])
        stretch = self._stretches(device, now_ms)
        is_plain = self._mark_alternating(events, stretch, now_ms) & _mark_two_events(events, device, stretch)
        starts = np.flatnonzero(is_plain)[::2]
        rows = [self._plain_rows(events, starts, now_ms)]
        others = np.flatnonzero(~is_plain)
        if len(others):
            rows.append(self._replay_all(events.take(pa.array(others)), now_ms[others]))
        return pa.concat_tables(rows).filter(pc.field("updated_ms") >= self.from_ms)

    def _stretches(self, device: Instants, now_ms: Instants) -> Instants:
        """The number of each event's stretch, from 1.

        A timer ends a live session at most one heartbeat after its timeout. It removes an entry at most one heartbeat
        after its retention. Each happens in the first micro-batch after that instant.
        """
        rules = self.rules
        over_ms = self.clock.all_at_or_after(now_ms + rules.session_timeout_ms + rules.heartbeat_ms)
        empty_ms = self.clock.all_at_or_after(over_ms + rules.late_retention_ms + rules.heartbeat_ms)
        begins = np.ones(len(now_ms), bool)
        begins[1:] = (device[1:] != device[:-1]) | (now_ms[1:] > empty_ms[:-1])
        return np.cumsum(begins)

    def _mark_alternating(self, events: pa.Table, stretch: Instants, now_ms: Instants) -> _Marks:
        """Marks the events of stretches that are Start, End, Start, End, each End after its own Start and in time."""
        session = _numbers(events, "session_id")
        at_ms = _numbers(events, "event_ms")
        is_start = events["is_start"].to_numpy()
        begin = np.flatnonzero(np.diff(stretch, prepend=0))
        size = np.diff(begin, append=len(stretch))
        number = stretch - 1
        place = np.arange(len(stretch)) - begin[number]
        is_odd = place % 2 == 1
        has_previous = place > 0
        previous = np.roll(np.arange(len(stretch)), 1)
        is_regular = is_start != is_odd
        # An End follows its own Start, and comes before the session times out.
        is_regular &= ~is_odd | (
            (session == session[previous])
            & (at_ms > at_ms[previous])
            & (now_ms - now_ms[previous] < self.rules.session_timeout_ms)
        )
        is_regular &= ~has_previous | is_odd | (at_ms >= at_ms[previous])
        is_plain: _Marks = size % 2 == 0
        is_plain[number[~is_regular]] = False
        return is_plain[number]

    def _plain_rows(self, events: pa.Table, starts: Instants, now_ms: Instants) -> pa.Table:
        start, end = events.take(pa.array(starts)), events.take(pa.array(starts + 1))
        account_id = start["account_id"]
        count = len(starts)
        return pa.table(
            [
                start["device_id"], start["session_id"], start["event_ms"],
                start["event_ms"], account_id, start["platform"],
                pa.repeat(pa.scalar(EndReason.REPORTED.rank, pa.int32()), count),
                pa.repeat(pa.scalar(0, pa.int32()), count),
                end["event_ms"], end["foreground_s"], pc.coalesce(account_id, end["account_id"]),
                pa.repeat(pa.scalar("reported", pa.string()), count), start["platform"],
                pa.array(now_ms[starts + 1], pa.int64()),
            ],
            schema=ROW_SCHEMA,
        )  # fmt: skip

    def _replay_all(self, events: pa.Table, now_ms: Instants) -> pa.Table:
        columns = [events[name].to_pylist() for name in EVENT_COLUMNS]
        rows: list[tuple[Any, ...]] = []
        for device_id, device_rows in groupby(zip(now_ms.tolist(), *columns, strict=True), key=lambda row: row[1]):
            key = self.layout.grouping_key_of(device_id)
            micro_batches = (
                (clock_ms, [_event(row) for row in batch_rows])
                for clock_ms, batch_rows in groupby(device_rows, key=lambda row: row[0])
            )
            grid = grid_for_key(key, self.rules.heartbeat_ms)
            for session_id, folded in fold_changes(replay(micro_batches, grid, self.rules, self.clock)):
                first_start, shown_end = folded.first_start or (None,) * 3, folded.shown_end or (None,) * 7
                rows.append((device_id, session_id, folded.started_ms, *first_start, *shown_end, folded.updated_ms))
        by_column = zip(*rows, strict=True) if rows else ((),) * len(ROW_SCHEMA)
        return pa.table(
            [pa.array(values, field.type) for values, field in zip(by_column, ROW_SCHEMA, strict=True)],
            schema=ROW_SCHEMA,
        )


def _event(row: tuple[Any, ...]) -> Event:
    """The event of a row: its micro-batch's clock, then `EVENT_COLUMNS`."""
    _now_ms, _device_id, session_id, is_start, at_ms, foreground_s, account_id, platform, ingested_ms = row
    fields = session_id, at_ms, _PLATFORMS[platform], ingested_ms, account_id
    return Start(*fields) if is_start else End(*fields, foreground_s)


def _mark_two_events(events: pa.Table, device: Instants, stretch: Instants) -> _Marks:
    """Marks the events of stretches in which each session has exactly two events on the device."""
    session = _numbers(events, "session_id")
    order = np.lexsort((session, device))
    begins = np.ones(len(order), bool)
    begins[1:] = (session[order][1:] != session[order][:-1]) | (device[order][1:] != device[order][:-1])
    of_session = np.cumsum(begins) - 1
    firsts = np.flatnonzero(begins)
    has_other_count = np.diff(firsts, append=len(order)) != _EVENTS_PER_SESSION
    is_plain = np.ones(stretch[-1] + 1, bool)
    is_plain[stretch[order[has_other_count[of_session]]]] = False
    return is_plain[stretch]


def _numbers(events: pa.Table, name: str) -> Instants:
    return np.asarray(events[name].to_numpy(), np.int64)


def _run_numbers(values: pa.ChunkedArray) -> Instants:
    """Numbers the runs of equal values, from 1, and gives each value the number of its run."""
    begins = np.ones(len(values), np.int64)
    begins[1:] = np.asarray(pc.not_equal(values.slice(1), values.slice(0, len(values) - 1)).to_numpy(), bool)
    return np.cumsum(begins)
