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
from sessionization.core.heartbeat_grid import Firing, grid_of
from sessionization.core.session_rules import Outcome, on_events, on_timer
from sessionization.core.session_state import RulesInForce, clamp_to_now, next_timer_ms
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.operator.codec import (
    OutputRow,
    decode_entries,
    entries_row,
    output_rows,
    pack_heartbeats,
    pack_rows,
    unpack_event,
    unpack_seed,
)
from sessionization.spark.operator.group_store import GroupStore
from sessionization.spark.operator.session_store import Devices, DeviceStore, SessionStore, any_live, by_device

GROUPING_KEY = "grouping_key"

_OBJECTS_BEFORE_GC = 100_000

GroupingKey = tuple[str]


@dataclass
class SessionProcessor(StatefulProcessor):
    """The sessions of a grouping key's devices (`StateLayout` says how they are laid out), and one timer for all of them.

    State calls of one device per key: a heartbeat costs four (set the key, read the map, register the next timer, and
    the engine's own delete of the fired one); a device's first Start four, an End five (set the key, read, write, move
    the timer), a repeat two. One more write comes with an event that changes two sessions. In a
    group a micro-batch's events cost a read a bucket that they fall into, and three more together; all its heartbeats
    four, and a write a bucket that has changed since the last ones.
    """

    layout: StateLayout
    in_force: RulesInForce
    _now_ms: int | None = field(default=None, init=False)
    _registered: dict[str, int | None] = field(default_factory=dict, init=False)
    _fired: set[str] = field(default_factory=set, init=False)

    def init(self, handle: StatefulProcessorHandle) -> None:
        _collect_seldom()
        self._handle = handle
        self._store = _open_store(self.layout, handle)

    def handleInitialState(self, key: GroupingKey, initialState: Any, timerValues: TimerValues) -> None:  # noqa: N802, N803
        """Remember a grouping key's sessions from before this checkpoint: a row whose last column is `codec.pack_seed`.

        Its timer is set for the first instant after those that were emitted then, and so maybe for one that is due.
        """
        rules = self.in_force.at(self._clock(timerValues))
        after_ms, devices = unpack_seed(initialState[-1])
        self._store.select_key(key[0])
        for device_id, sessions in devices.items():
            self._store.save(device_id, {}, sessions)
        self._store.flush()
        entries = (entry for sessions in devices.values() for entry in sessions.values())
        timer_ms = next_timer_ms(entries, after_ms, grid_of(key[0], rules.heartbeat_ms), rules)
        if timer_ms is not None:
            self._handle.registerTimer(timer_ms)

    def handleInputRows(self, key: GroupingKey, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        """Apply a grouping key's events of one micro-batch: rows whose last column is `codec.pack_event`.

        A row without an event says that the clock went back.
        """
        now_ms = self._clock(timerValues)
        rules = self.in_force.at(now_ms)
        events: defaultdict[str, list[Event]] = defaultdict(list)
        is_wake = False
        for row in rows:
            if row[-1] is None:
                is_wake = True
                continue
            device_id, event = unpack_event(row[-1])
            events[device_id].append(event)
        self._store.select_key(key[0])
        if is_wake:
            self._reset_after_clock_went_back(key, now_ms)
            if not events:
                return
            self._store.select_key(key[0])
        before = self._store.read(events)

        def decide(device_id: str, of_device: list[Event]) -> Outcome:
            return on_events(before.get(device_id, {}), of_device, now_ms, rules)

        outcomes = by_device(events, decide)
        output, after = self._saved(before, outcomes, now_ms)
        self._reschedule(key, before, after, now_ms)
        yield from pack_rows(output)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: GroupingKey,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        """Let a grouping key's timer fire, and set the next one.

        A timer that was set under older rules may still be there beside the one set under today's; where both are
        due at once, the earlier one has spoken for both.
        """
        now_ms = self._clock(timerValues)
        if key[0] in self._fired:
            return
        self._fired.add(key[0])
        rules = self.in_force.at(now_ms)
        grid = grid_of(key[0], rules.heartbeat_ms)
        firing = Firing.of(expiredTimerInfo.getExpiryTimeInMs(), now_ms, grid)
        self._store.select_key(key[0])
        due = self._store.read_due(now_ms - rules.late_retention_ms, now_ms - rules.session_timeout_ms)
        outcomes = by_device(due.devices, lambda _device_id, sessions: on_timer(sessions, firing, rules))
        output, after = self._saved(due.devices, outcomes, now_ms)
        self._store.flush()
        if self.layout.device_groups is not None:
            output.append(entries_row(key[0], due.others + sum(map(len, after.values())), now_ms))
        for device_id, entry in due.beating[:1]:  # one live session anywhere fixes the timer
            after[device_id] = decode_entries([entry])
        if not any_live(after):  # then what is to be forgotten first decides
            after |= self._store.read_others(due.devices)
        self._move_timer(key, self._registered.get(key[0]), self._wanted(key, after, now_ms))
        yield from pack_rows(output)
        yield from pack_heartbeats(due.beating, firing)

    def close(self) -> None:
        pass

    def _clock(self, timer_values: TimerValues) -> int:
        """The micro-batch's clock; a new one means a new micro-batch, in which no timer was set or has fired yet.

        Spark makes a new processor for every task, an engine that keeps one (as in tests) is served too.
        """
        now_ms = timer_values.getCurrentProcessingTimeInMs()
        if now_ms != self._now_ms:
            self._now_ms = now_ms
            self._registered.clear()
            self._fired.clear()
        return now_ms

    def _saved(self, before: Devices, outcomes: dict[str, Outcome], now_ms: int) -> tuple[list[OutputRow], Devices]:
        """Save what has changed; returns the rows to emit, and all devices that were read as they are now."""
        after = dict(before)
        output: list[OutputRow] = []
        for device_id, outcome in outcomes.items():
            self._store.save(device_id, before.get(device_id, {}), outcome.sessions)
            after[device_id] = outcome.sessions
            output += output_rows(device_id, outcome, now_ms)
        return output, after

    def _reschedule(self, key: GroupingKey, before: Devices, after: Devices, now_ms: int) -> None:
        """Move the timer as the change of these devices wants it.

        One live session anywhere fixes the timer: it is the next grid instant. So the other devices are read only where
        none is seen to be live, and one of these was not, or is no more.
        """
        self._store.flush()
        if self._store.another_device_is_live(after) or (any_live(before) and any_live(after)):
            return
        others = self._store.read_others(after)
        before, after = before | others, after | others
        # A timer that is not due yet is the one wanted before; one that is due fires later in this micro-batch.
        self._move_timer(key, self._wanted(key, before, now_ms), self._wanted(key, after, now_ms))

    def _reset_after_clock_went_back(self, key: GroupingKey, now_ms: int) -> None:
        """Move later instants in a grouping key's entries back to now, and set its one timer for the next instant.

        Emits nothing, so a micro-batch that is repeated without this says the same. A timer that is due stays: it fires
        in the same micro-batch and sets the next one.
        """
        devices = self._store.read_all()
        after = {device_id: clamp_to_now(sessions, now_ms) for device_id, sessions in devices.items()}
        for device_id, sessions in after.items():
            self._store.save(device_id, devices[device_id], sessions)
        self._store.flush()
        wanted_ms = self._wanted(key, after, now_ms)
        there_ms = list(self._handle.listTimers())
        for timer_ms in there_ms:
            if timer_ms > now_ms and timer_ms != wanted_ms:
                self._handle.deleteTimer(timer_ms)
        if wanted_ms is not None and wanted_ms not in there_ms:
            self._handle.registerTimer(wanted_ms)
        self._registered[key[0]] = wanted_ms

    def _wanted(self, key: GroupingKey, devices: Devices, now_ms: int) -> int | None:
        rules = self.in_force.at(now_ms)
        entries = (entry for sessions in devices.values() for entry in sessions.values())
        return next_timer_ms(entries, now_ms, grid_of(key[0], rules.heartbeat_ms), rules)

    def _move_timer(self, key: GroupingKey, from_ms: int | None, to_ms: int | None) -> None:
        if from_ms == to_ms:
            return
        if from_ms is not None:
            self._handle.deleteTimer(from_ms)
        if to_ms is not None:
            self._handle.registerTimer(to_ms)
        self._registered[key[0]] = to_ms


def _open_store(layout: StateLayout, handle: StatefulProcessorHandle) -> SessionStore:
    return DeviceStore(handle) if layout.device_groups is None else GroupStore(handle, layout.device_groups)


def _collect_seldom() -> None:
    """Spare a worker most of its garbage collection, which would take 2/5 of its time and find nothing.

    Entries and rows hold no reference cycles. And the daemon collects after every task, each time through all that
    the libraries have brought with them: that is set aside once.
    """
    gc.set_threshold(_OBJECTS_BEFORE_GC)
    if not gc.get_freeze_count():
        gc.freeze()
