"""The stateful operator: load a grouping key's sessions, let the core decide, save the difference, emit."""

import gc
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

from sessionization.core.events import Event
from sessionization.core.heartbeat_grid import Firing, grid_for_key
from sessionization.core.session_rules import Outcome, on_events, on_timer
from sessionization.core.session_state import Rules, RulesInForce, SessionState, next_timer_ms, timer_for_events_ms
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.operator.codec import (
    OutputRow,
    entries_row,
    output_rows,
    pack_heartbeats,
    pack_rows,
    unpack_event,
)
from sessionization.spark.operator.group_store import GroupStore
from sessionization.spark.operator.seed import unpack_seed
from sessionization.spark.operator.session_store import Devices, DeviceStore, SessionStore, map_devices

GROUPING_KEY = "grouping_key"

_OBJECTS_BEFORE_GC = 100_000

GroupingKey = tuple[str]


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
    remembers anything. An event sets a timer only if it needs an earlier one than the entries that it found, a firing
    sets the next one that the remaining entries need. Neither reads timers: which ones are set follows from the entries
    (docs/architecture.md).
    """

    layout: StateLayout
    in_force: RulesInForce
    _now_ms: int | None = field(default=None, init=False)
    _fired_keys: set[str] = field(default_factory=set, init=False)
    """The grouping keys whose timers have fired in this micro-batch."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        _reduce_garbage_collection()
        self._handle = handle
        self._store = _open_store(self.layout, handle)

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
        after_ms, devices = unpack_seed(initialState[-1])
        self._store.select_key(key[0])
        for device_id, sessions in devices.items():
            self._store.save(device_id, {}, sessions)
        self._store.flush()
        timer_ms = self._needed_timer_ms(key, devices, after_ms, rules)
        if timer_ms is not None:
            self._handle.registerTimer(timer_ms)

    def handleInputRows(  # noqa: N802
        self,
        key: GroupingKey,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        """Apply a grouping key's events of one micro-batch: rows whose last column is `codec.pack_event`."""
        now_ms = self._enter_micro_batch(timerValues)
        rules = self.in_force.at(now_ms)
        events: defaultdict[str, list[Event]] = defaultdict(list)
        for row in rows:
            device_id, event = unpack_event(row[-1])
            events[device_id].append(event)
        self._store.select_key(key[0])
        loaded = self._store.read(events)

        def decide(device_id: str, device_events: list[Event]) -> Outcome:
            return on_events(loaded.get(device_id, {}), device_events, now_ms, rules)

        outcomes = map_devices(events, decide)
        output, updated = self._save(loaded, outcomes, now_ms)
        self._set_timer_for_events(key, loaded, updated, now_ms, rules)
        self._store.flush()
        yield from pack_rows(output)

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
        self._store.select_key(key[0])
        due = self._store.read_due(now_ms - rules.late_retention_ms, now_ms - rules.session_timeout_ms)
        outcomes = map_devices(due.devices, lambda _device_id, sessions: on_timer(sessions, firing, rules))
        output, updated = self._save(due.devices, outcomes, now_ms)
        self._store.flush()
        if self.layout.device_groups is not None:
            output.append(entries_row(key[0], due.other_entries + sum(map(len, updated.values())), now_ms))
        timer_ms = grid.after(now_ms) if due.other_entries else self._needed_timer_ms(key, updated, now_ms, rules)
        if timer_ms is not None:
            self._handle.registerTimer(timer_ms)
        yield from pack_rows(output)
        yield from pack_heartbeats(due.beating, firing)

    def close(self) -> None:
        pass

    def _enter_micro_batch(self, timer_values: TimerValues) -> int:
        """Return the micro-batch's clock; if it is new, so is the micro-batch, and no timer has fired in it.

        Spark makes a new processor for every task. In real-time mode a task has several clocks.
        """
        now_ms = timer_values.getCurrentProcessingTimeInMs()
        if now_ms != self._now_ms:
            self._now_ms = now_ms
            self._fired_keys.clear()
        return now_ms

    def _save(self, loaded: Devices, outcomes: dict[str, Outcome], now_ms: int) -> tuple[list[OutputRow], Devices]:
        """Save the changes; return the rows to emit, and all loaded devices with their present sessions."""
        updated = dict(loaded)
        output: list[OutputRow] = []
        for device_id, outcome in outcomes.items():
            self._store.save(device_id, loaded.get(device_id, {}), outcome.sessions)
            updated[device_id] = outcome.sessions
            output += output_rows(device_id, outcome, now_ms)
        return output, updated

    def _set_timer_for_events(
        self, key: GroupingKey, loaded: Devices, updated: Devices, now_ms: int, rules: Rules
    ) -> None:
        """Set the timer that the devices of these events need, if they needed none so early before.

        The timer that they needed before is set. Or it is due: then it fires later in this micro-batch, and sets the
        next one. The same holds for the next instant of a group that was not empty. A device's first live session
        always sets its timer: under a longer late retention that of its closed sessions may have been set much later.
        """
        if self.layout.device_groups is not None and not self._store.was_empty():
            return
        grid = grid_for_key(key[0], rules.heartbeat_ms)
        if self.layout.device_groups is not None:
            timer_ms = grid.after(now_ms) if any(updated.values()) else None
        else:
            timer_ms = timer_for_events_ms(_entries(loaded), _entries(updated), now_ms, grid, rules)
        if timer_ms is not None:
            self._handle.registerTimer(timer_ms)

    def _needed_timer_ms(self, key: GroupingKey, devices: Devices, now_ms: int, rules: Rules) -> int | None:
        """Return the instant after `now_ms` for which devices need a timer; None without an entry."""
        grid = grid_for_key(key[0], rules.heartbeat_ms)
        entries = _entries(devices)
        if self.layout.device_groups is not None:
            return grid.after(now_ms) if entries else None
        return next_timer_ms(entries, now_ms, grid, rules)


def _entries(devices: Devices) -> list[SessionState]:
    return [entry for sessions in devices.values() for entry in sessions.values()]


def _open_store(layout: StateLayout, handle: StatefulProcessorHandle) -> SessionStore:
    return DeviceStore(handle) if layout.device_groups is None else GroupStore(handle, layout)


def _reduce_garbage_collection() -> None:
    """Make garbage collection rare in a worker: it would take 2/5 of the worker's time and find nothing.

    Entries and rows hold no reference cycles. The daemon also collects after every task, each time through all
    objects of the imported libraries. Freezing exempts these objects from then on.
    """
    gc.set_threshold(_OBJECTS_BEFORE_GC)
    if not gc.get_freeze_count():
        gc.freeze()
