"""The stateful operator: load a grouping key's sessions, let the core decide, store what it updated, emit."""

import gc
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

from sessionization.core.device_sessions import Outcome
from sessionization.core.events import Event
from sessionization.core.heartbeat_grid import Firing, Grid, grid_for_key
from sessionization.core.heartbeats import heartbeats
from sessionization.core.session_rules import on_events, on_timer
from sessionization.core.session_state import (
    Expiry,
    Rules,
    RulesInForce,
    Sessions,
    SessionState,
    expiry_at,
    next_timer_ms,
    timer_for_events_ms,
)
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.operator.event_text import unpack_event
from sessionization.spark.operator.group_store import GroupStore
from sessionization.spark.operator.heard_sessions import HeardSessions, take_activities
from sessionization.spark.operator.output_rows import (
    OutputRow,
    change_rows,
    counts_rows,
    entries_row,
    pack_columns,
    pack_rows,
)
from sessionization.spark.operator.seed import unpack_seed
from sessionization.spark.operator.session_store import DeviceStore, SessionStore, Updates
from sessionization.spark.operator.stored_entries import (
    StoredDevices,
    decode_entries,
    encode_entries,
    has_nothing_over,
    live_sessions,
)

GROUPING_KEY = "grouping_key"
_OBJECTS_BEFORE_GC = 100_000

GroupingKey = tuple[str]

T = TypeVar("T")
R = TypeVar("R")


@dataclass
class SessionProcessor(StatefulProcessor):
    """Processes the sessions of a grouping key's devices (`StateLayout`): Spark calls it, the core decides.

    In a micro-batch Spark calls, for each key,

    1. `handleInputRows`, once, if the key has events. It applies all of them in the rules' order, writes the entries
       that changed, and returns the changes.
    2. `handleExpiredTimer`, for each timer at or before the micro-batch's clock, the earliest first. The first call
       stands for all of them: it applies the timer rules to all devices of the key, and returns the changes.

    Before its first micro-batch a warm start calls `handleInitialState`, once for each key of its sessions.

    A call depends on nothing but its rows, the key's entries and timers, the micro-batch's clock and the rules in force
    at that clock. So a micro-batch that Spark repeats returns the same rows. A call reads no clock, keeps nothing for
    later micro-batches, and raises an error only for state that it cannot read: that ends the query.

    Timers lie on the key's grid, after the clock of the call that sets them. No call deletes one: a timer that fires
    for nothing returns no change. With one device per key, a timer is set for the first instant at which the rules have
    something to do, or for an earlier one. With device groups, one is set for the next instant as long as the group
    remembers anything. Events set a timer only if the one that is set is too late; a firing always sets the next one.
    Neither reads timers: which ones are set follows from the entries (docs/architecture.md).
    """

    layout: StateLayout
    in_force: RulesInForce
    _now_ms: int | None = field(default=None, init=False)
    _fired_keys: set[str] = field(default_factory=set, init=False)
    """The grouping keys whose timers have fired in this micro-batch."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        _reduce_garbage_collection()
        self._handle = handle
        self._store: SessionStore = (
            GroupStore(handle, self.layout) if self.layout.has_groups else DeviceStore(handle, self.layout)
        )

    def handleInitialState(  # noqa: N802
        self,
        key: GroupingKey,
        initialState: Any,  # noqa: N803
        timerValues: TimerValues,  # noqa: N803
    ) -> None:
        """Store a grouping key's sessions from before this checkpoint.

        The last column of the row holds the key's sessions from the old checkpoint (`seed.pack_seed`). The timer is
        set for the first grid instant after the last heartbeat already written. It may already be due.
        """
        rules = self.in_force.at(self._enter_micro_batch(timerValues))
        after_ms, devices = unpack_seed(initialState[-1], len(self.layout.labels))
        self._store.store(key[0], {device_id: encode_entries(sessions) for device_id, sessions in devices.items()})
        grid = grid_for_key(key[0], rules.heartbeat_ms)
        self._set_timer(self._next_timer_ms(_entries(devices.values()), after_ms, grid, rules))

    def handleInputRows(  # noqa: N802
        self,
        key: GroupingKey,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        """Apply a grouping key's events of one micro-batch: rows whose last column is `event_text.pack_event`."""
        now_ms, label_count = self._enter_micro_batch(timerValues), len(self.layout.labels)
        rules = self.in_force.at(now_ms)
        events: defaultdict[str, list[Event]] = defaultdict(list)
        for *_, text in rows:
            device_id, event = unpack_event(text, self.layout)
            events[device_id].append(event)

        stored = self._store.load(key[0], events.keys())
        heard = HeardSessions()
        if self.layout.has_groups and rules.has_activity:
            heard = take_activities(events, stored or {}, now_ms, rules)
        remaining = {device_id: entries for device_id, entries in (stored or {}).items() if device_id in events}
        before = _map_devices(remaining, lambda _, entries: decode_entries(entries, label_count))

        def apply(device_id: str, device_events: list[Event]) -> Outcome:
            return on_events(before.get(device_id, {}), device_events, now_ms, rules)

        outcomes = _map_devices(events, apply)
        self._store.store(key[0], {**_updates(outcomes), **heard.updates})

        after = _entries(outcome.sessions for outcome in outcomes.values())
        grid = grid_for_key(key[0], rules.heartbeat_ms)
        if self.layout.has_groups:
            # A group that remembered anything has its timer.
            timer_ms = self._next_timer_ms(after, now_ms, grid, rules) if stored is None else None
        else:
            timer_ms = timer_for_events_ms(_entries(before.values()), after, now_ms, grid, rules)
        self._set_timer(timer_ms)
        yield from pack_rows([*_rows(outcomes, now_ms), *counts_rows(key[0], heard.tally, now_ms)])

    def handleExpiredTimer(  # noqa: N802
        self,
        key: GroupingKey,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        """Apply a grouping key's timers that are due, and set the next one.

        Spark calls this for each of them. The first one, which is the earliest, stands for all.
        """
        now_ms = self._enter_micro_batch(timerValues)
        if key[0] in self._fired_keys:
            return
        self._fired_keys.add(key[0])
        rules = self.in_force.at(now_ms)
        grid = grid_for_key(key[0], rules.heartbeat_ms)
        firing = Firing.from_timer(expiredTimerInfo.getExpiryTimeInMs(), now_ms, grid)

        stored = self._store.load_all(key[0])
        beating, others = self._split(stored, expiry_at(now_ms, rules), firing)

        label_count = len(self.layout.labels)
        outcomes = _map_devices(
            others, lambda _, entries: on_timer(decode_entries(entries, label_count), firing, rules)
        )
        self._store.store(key[0], _updates(outcomes))

        entries = _entries(outcome.sessions for outcome in outcomes.values())
        self._set_timer(grid.after(now_ms) if beating else self._next_timer_ms(entries, now_ms, grid, rules))

        output = _rows(outcomes, now_ms)
        if self.layout.has_groups:
            output.append(entries_row(key[0], len(entries) + sum(map(len, beating.values())), now_ms))
        yield from pack_rows(output)
        live = live_sessions(beating, has_signs=rules.has_activity)
        yield from pack_columns(heartbeats(live, firing))

    def close(self) -> None:
        pass

    def _enter_micro_batch(self, timer_values: TimerValues) -> int:
        """Return the micro-batch's clock. A changed clock means a new micro-batch, in which no timer has fired yet.

        Spark makes a new processor for every task. In real-time mode a task has several clocks.
        """
        now_ms = timer_values.getCurrentProcessingTimeInMs()
        if now_ms != self._now_ms:
            self._now_ms = now_ms
            self._fired_keys.clear()
        return now_ms

    def _split(self, stored: StoredDevices, expiry: Expiry, firing: Firing) -> tuple[StoredDevices, StoredDevices]:
        """Split the devices into those that need heartbeats only, as most do, and the rest.

        Without groups the one device is in the rest.
        """
        if not self.layout.has_groups:
            return {}, stored
        can_only_beat = _map_devices(stored, lambda _, entries: has_nothing_over(entries, expiry, firing.first_due_ms))
        return (
            {device_id: entries for device_id, entries in stored.items() if can_only_beat[device_id]},
            {device_id: entries for device_id, entries in stored.items() if not can_only_beat[device_id]},
        )

    def _next_timer_ms(self, entries: list[SessionState], now_ms: int, grid: Grid, rules: Rules) -> int | None:
        """Return the instant after `now_ms` for which a key with these entries needs a timer; None without an entry."""
        if self.layout.has_groups:
            return grid.after(now_ms) if entries else None
        return next_timer_ms(entries, now_ms, grid, rules)

    def _set_timer(self, timer_ms: int | None) -> None:
        if timer_ms is not None:
            self._handle.registerTimer(timer_ms)


def _reduce_garbage_collection() -> None:
    """Make garbage collection rare in a worker: it would take 2/5 of the worker's time and find nothing.

    Entries and rows hold no reference cycles. The daemon also collects after every task, each time through all
    objects of the imported libraries. Freezing exempts these objects from then on.
    """
    gc.set_threshold(_OBJECTS_BEFORE_GC)
    if not gc.get_freeze_count():
        gc.freeze()


def _map_devices(devices: Mapping[str, T], decide: Callable[[str, T], R]) -> dict[str, R]:
    """Call `decide` for each device, and return the results by device.

    Raises `RuntimeError` where `decide` raises. The error names the device, so that its messages can be found.
    """
    results: dict[str, R] = {}
    device_id = None
    try:
        for device_id, value in devices.items():
            results[device_id] = decide(device_id, value)
    except Exception as error:
        msg = f"device {device_id!r}: {error}"
        raise RuntimeError(msg) from error
    return results


def _updates(outcomes: Mapping[str, Outcome]) -> Updates:
    return {device_id: encode_entries(outcome.updated) for device_id, outcome in outcomes.items() if outcome.updated}


def _entries(devices: Iterable[Sessions]) -> list[SessionState]:
    return [entry for sessions in devices for entry in sessions.values()]


def _rows(outcomes: Mapping[str, Outcome], now_ms: int) -> list[OutputRow]:
    return [row for device_id, outcome in outcomes.items() for row in change_rows(device_id, outcome, now_ms)]
