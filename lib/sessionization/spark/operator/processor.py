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
from sessionization.core.session_state import RulesInForce, clamp_to_now, next_timer_ms
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
from sessionization.spark.operator.session_store import Devices, DeviceStore, SessionStore, any_live, map_devices

GROUPING_KEY = "grouping_key"

_OBJECTS_BEFORE_GC = 100_000

GroupingKey = tuple[str]


@dataclass
class SessionProcessor(StatefulProcessor):
    """Processes the sessions of a grouping key's devices (`StateLayout`), with one timer for all of them.

    The timer is set for the next grid instant if a session is live, else for the earliest deadline of an entry.

    State calls with one device per key: a heartbeat costs four (set the key, read the map, register the next
    timer, and the engine's own delete of the fired timer). A device's first Start costs four, an End five (set the
    key, read, write, move the timer), and a repeat two. An event that changes two sessions costs one more write.

    State calls with device groups: the events of a micro-batch cost one read per bucket that they fall into, and
    three more together. All heartbeats of a group cost four, and one write per bucket that changed since the last
    heartbeats.
    """

    layout: StateLayout
    in_force: RulesInForce
    _now_ms: int | None = field(default=None, init=False)
    _timers_set_ms: dict[str, int | None] = field(default_factory=dict, init=False)
    """The timers set in this micro-batch, by grouping key; None for a key whose timer was deleted."""
    _fired_keys: set[str] = field(default_factory=set, init=False)
    """The grouping keys whose timer has fired in this micro-batch."""

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
        entries = (entry for sessions in devices.values() for entry in sessions.values())
        timer_ms = next_timer_ms(entries, after_ms, grid_for_key(key[0], rules.heartbeat_ms), rules)
        if timer_ms is not None:
            self._handle.registerTimer(timer_ms)

    def handleInputRows(  # noqa: N802
        self,
        key: GroupingKey,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        """Apply a grouping key's events of one micro-batch: rows whose last column is `codec.pack_event`.

        A row without an event is a wake-up (`ticks.WakeUp`): after the clock went back, each key with a timer gets one.
        """
        now_ms = self._enter_micro_batch(timerValues)
        rules = self.in_force.at(now_ms)
        events: defaultdict[str, list[Event]] = defaultdict(list)
        is_woken = False
        for row in rows:
            if row[-1] is None:
                is_woken = True
                continue
            device_id, event = unpack_event(row[-1])
            events[device_id].append(event)
        self._store.select_key(key[0])
        if is_woken:
            self._reset_after_clock_went_back(key, now_ms)
            if not events:
                return
            self._store.select_key(key[0])
        loaded = self._store.read(events)

        def decide(device_id: str, device_events: list[Event]) -> Outcome:
            return on_events(loaded.get(device_id, {}), device_events, now_ms, rules)

        outcomes = map_devices(events, decide)
        output, updated = self._save(loaded, outcomes, now_ms)
        self._reschedule(key, loaded, updated, now_ms)
        yield from pack_rows(output)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: GroupingKey,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        """Apply a grouping key's fired timer, and set the next one.

        A timer that was set under older rules may still exist next to the one set under today's rules. If both are
        due at once, the earlier one stands for both.
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
        timer_ms: int | None = grid.after(now_ms)
        if not due.beating and not any_live(updated):  # the earliest deadline of all entries
            timer_ms = self._timer_ms(key, updated | self._store.read_others(due.devices), now_ms)
        self._move_timer(key, self._timers_set_ms.get(key[0]), timer_ms)
        yield from pack_rows(output)
        yield from pack_heartbeats(due.beating, firing)

    def close(self) -> None:
        pass

    def _enter_micro_batch(self, timer_values: TimerValues) -> int:
        """Return the micro-batch's clock; if it is new, so is the micro-batch: no timer was set or has fired in it.

        Spark makes a new processor for every task. An engine that reuses one (as in tests) works too.
        """
        now_ms = timer_values.getCurrentProcessingTimeInMs()
        if now_ms != self._now_ms:
            self._now_ms = now_ms
            self._timers_set_ms.clear()
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

    def _reschedule(self, key: GroupingKey, loaded: Devices, updated: Devices, now_ms: int) -> None:
        """Move the timer if the change of these devices requires it.

        One live session anywhere determines the timer: it is the next grid instant. The other devices are
        therefore read only if the store knows of no live session among them, and these devices had none before or
        have none now.
        """
        self._store.flush()
        if (any_live(loaded) and any_live(updated)) or self._store.knows_other_live_device(updated):
            return
        others = self._store.read_others(updated)
        loaded, updated = loaded | others, updated | others
        # The old entries give the timer that is set, unless it is due: then it fires later in this micro-batch.
        self._move_timer(key, self._timer_ms(key, loaded, now_ms), self._timer_ms(key, updated, now_ms))

    def _reset_after_clock_went_back(self, key: GroupingKey, now_ms: int) -> None:
        """Move later instants in a grouping key's entries back to now, and set its one timer for the next instant.

        Emits nothing, so a replay without this call emits the same rows. A timer that is due stays: it fires in
        the same micro-batch and sets the next one.
        """
        devices = self._store.read_all()
        clamped = {device_id: clamp_to_now(sessions, now_ms) for device_id, sessions in devices.items()}
        for device_id, sessions in clamped.items():
            self._store.save(device_id, devices[device_id], sessions)
        self._store.flush()
        wanted_ms = self._timer_ms(key, clamped, now_ms)
        existing_ms = list(self._handle.listTimers())
        for timer_ms in existing_ms:
            if timer_ms > now_ms and timer_ms != wanted_ms:
                self._handle.deleteTimer(timer_ms)
        if wanted_ms is not None and wanted_ms not in existing_ms:
            self._handle.registerTimer(wanted_ms)
        self._timers_set_ms[key[0]] = wanted_ms

    def _timer_ms(self, key: GroupingKey, devices: Devices, now_ms: int) -> int | None:
        rules = self.in_force.at(now_ms)
        entries = (entry for sessions in devices.values() for entry in sessions.values())
        return next_timer_ms(entries, now_ms, grid_for_key(key[0], rules.heartbeat_ms), rules)

    def _move_timer(self, key: GroupingKey, from_ms: int | None, to_ms: int | None) -> None:
        if from_ms == to_ms:
            return
        if from_ms is not None:
            self._handle.deleteTimer(from_ms)
        if to_ms is not None:
            self._handle.registerTimer(to_ms)
        self._timers_set_ms[key[0]] = to_ms


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
