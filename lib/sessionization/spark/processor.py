"""The stateful operator: load a grouping key's sessions, let the core decide, save the difference, emit."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sessionization.core.events import Event
from sessionization.core.grid import grid_of
from sessionization.core.sessions import Outcome, on_events, on_timer
from sessionization.core.state import Rules, SessionState, next_timer_ms
from sessionization.spark.codec import STATE_SCHEMA, from_entry, output_rows, to_entry, to_event

STATE_NAME = "sessions"
GROUPING_KEY = "grouping_key"

GroupingKey = tuple[str]
_Devices = dict[str, dict[int, SessionState]]


@dataclass(frozen=True, slots=True)
class Layout:
    """What one grouping key holds: one device, or with `device_groups` all devices of one hash group.

    A checkpoint keeps its layout for good (docs/adr/0003-device-grouping.md).
    """

    device_groups: int | None = None

    def grouping_key(self) -> Column:
        """The text that events are grouped by, from the column `device_id`."""
        if self.device_groups is None:
            return F.col("device_id")
        return F.pmod(F.crc32(F.col("device_id").cast("binary")), F.lit(self.device_groups)).cast("string")

    def map_key_schema(self) -> StructType:
        """The map's key; in a group two devices may use the same session id, so the device id is part of it."""
        session_id = StructField("session_id", LongType())
        if self.device_groups is None:
            return StructType([session_id])
        return StructType([StructField("device_id", StringType()), session_id])

    def map_key(self, device_id: str, session_id: int) -> tuple[str | int, ...]:
        """A session's key in the map."""
        return (session_id,) if self.device_groups is None else (device_id, session_id)

    def device_and_session(self, grouping_key: str, map_key: tuple[Any, ...]) -> tuple[str, int]:
        """What `map_key` was made from, and `grouping_key` for the device."""
        return (grouping_key, map_key[0]) if self.device_groups is None else (map_key[0], map_key[1])


@dataclass(frozen=True, slots=True)
class RulesInForce:
    """The rules by the micro-batch's clock: `rules` after `previous_until_ms`, `previous` until then.

    A micro-batch that was cut off is repeated with its old clock. It must then be repeated under its old rules too,
    for part of it may already be in the tables.
    """

    rules: Rules
    previous: Rules | None = None
    previous_until_ms: int = 0

    def at(self, now_ms: int) -> Rules:
        if self.previous is not None and now_ms <= self.previous_until_ms:
            return self.previous
        return self.rules


@dataclass
class SessionProcessor(StatefulProcessor):
    """`MapState<session_id, SessionState>` (in a group: by device and session) and one timer per grouping key.

    State calls: a heartbeat costs four (set the key, read the map, register the next timer, and the engine's own
    delete of the fired one); a device's first Start four, an End five (set the key, read, write, move the timer), a
    repeat two. One more write comes with an event that changes two sessions.
    """

    layout: Layout
    in_force: RulesInForce
    _now_ms: int | None = field(default=None, init=False)
    _registered: dict[str, int | None] = field(default_factory=dict, init=False)
    _fired: set[str] = field(default_factory=set, init=False)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._sessions = handle.getMapState(STATE_NAME, self.layout.map_key_schema(), STATE_SCHEMA)

    def handleInputRows(self, key: GroupingKey, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        """Apply a grouping key's events of one micro-batch."""
        now_ms = self._clock(timerValues)
        rules = self.in_force.at(now_ms)
        events: defaultdict[str, list[Event]] = defaultdict(list)
        for row in rows:
            events[row.device_id].append(to_event(row))
        before = self._load(key)
        after = dict(before)
        for device_id, of_device in events.items():
            with _named(device_id):
                outcome = on_events(before.get(device_id, {}), of_device, now_ms, rules)
            after[device_id] = outcome.sessions
            yield from self._save(device_id, before.get(device_id, {}), outcome, now_ms)

        # A timer that is not due yet is the one wanted before; one that is due fires later in this micro-batch.
        self._move_timer(key, self._wanted(key, before, now_ms), self._wanted(key, after, now_ms))

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
        before = self._load(key)
        after: _Devices = {}
        for device_id, sessions in before.items():
            with _named(device_id):
                outcome = on_timer(sessions, expiredTimerInfo.getExpiryTimeInMs(), now_ms, grid, rules)
            after[device_id] = outcome.sessions
            yield from self._save(device_id, sessions, outcome, now_ms)
        self._move_timer(key, self._registered.get(key[0]), self._wanted(key, after, now_ms))

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

    def _load(self, key: GroupingKey) -> _Devices:
        devices: _Devices = {}
        for map_key, value in self._sessions.iterator():
            device_id, session_id = self.layout.device_and_session(key[0], map_key)
            with _named(device_id):
                devices.setdefault(device_id, {})[session_id] = to_entry(value)
        return devices

    def _save(self, device_id: str, before: dict[int, SessionState], outcome: Outcome, now_ms: int) -> Iterator[Row]:
        for session_id, entry in outcome.sessions.items():
            if before.get(session_id) is not entry:  # the core returns what it did not change as the object it got
                self._sessions.updateValue(self.layout.map_key(device_id, session_id), from_entry(entry))
        for session_id in before.keys() - outcome.sessions.keys():
            self._sessions.removeKey(self.layout.map_key(device_id, session_id))
        return output_rows(device_id, outcome, now_ms)

    def _wanted(self, key: GroupingKey, devices: _Devices, now_ms: int) -> int | None:
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


@contextmanager
def _named(device_id: str) -> Iterator[None]:
    """Say which device it was that could not be worked on: whoever is on call has to find its messages."""
    try:
        yield
    except Exception as error:
        msg = f"device {device_id!r}: {error}"
        raise RuntimeError(msg) from error
