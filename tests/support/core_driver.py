"""Plays micro-batches through the core as the Spark operator does: one state and its timers per grouping key."""

from collections.abc import Callable, Iterable
from dataclasses import astuple
from operator import add

from sessionization.core.device_sessions import Outcome, Tally
from sessionization.core.events import Change, Event
from sessionization.core.heartbeat_grid import Firing, Grid, grid_for_key
from sessionization.core.session_rules import on_events, on_timer
from sessionization.core.session_state import Rules, Sessions, SessionState, next_timer_ms, timer_for_events_ms


def by_device(device_id: str) -> str:
    return device_id


class Driver:
    """Holds `sessions` by device and `timers` by grouping key.

    `fired` has the keys whose timers the last micro-batch fired, each with the earliest of them.
    """

    def __init__(self, rules: Rules, key_of: Callable[[str], str] = by_device) -> None:
        self.rules = rules
        self.key_of = key_of
        self.sessions: dict[str, dict[int, SessionState]] = {}
        self.timers: dict[str, set[int]] = {}
        self.tally = Tally()
        self.fired: dict[str, int] = {}
        self._changes: list[tuple[str, Change]] = []

    def micro_batch(self, now_ms: int, rows: Iterable[tuple[str, Event]]) -> list[tuple[str, Change]]:
        self._changes = []
        self.fired = {key: min(timers_ms) for key, timers_ms in self.timers.items() if min(timers_ms) <= now_ms}
        by_key: dict[str, dict[str, list[Event]]] = {key: {} for key in self.fired}
        for device_id, event in rows:
            by_key.setdefault(self.key_of(device_id), {}).setdefault(device_id, []).append(event)
        for key, events_by_device in by_key.items():
            before = self.entries(key)
            for device_id, events in events_by_device.items():
                self._apply(device_id, on_events(self.sessions.get(device_id, {}), events, now_ms, self.rules))
            self._set_timer(key, self._timer_for_events_ms(key, before, now_ms))
            if key in self.fired:
                self._fire(key, now_ms)
        return self._changes

    def entries(self, key: str) -> list[SessionState]:
        return [
            entry
            for device_id, sessions in self.sessions.items()
            if self.key_of(device_id) == key
            for entry in sessions.values()
        ]

    def _fire(self, key: str, now_ms: int) -> None:
        firing = Firing.from_timer(self.fired[key], now_ms, self._grid(key))
        for device_id in [device_id for device_id in self.sessions if self.key_of(device_id) == key]:
            self._apply(device_id, on_timer(self.sessions[device_id], firing, self.rules))
        timers_ms = {timer_ms for timer_ms in self.timers.pop(key) if timer_ms > now_ms}
        if timers_ms:
            self.timers[key] = timers_ms
        self._set_timer(key, self._next_timer_ms(key, now_ms))

    def _timer_for_events_ms(self, key: str, before: list[SessionState], now_ms: int) -> int | None:
        if self.key_of is by_device:
            return timer_for_events_ms(before, self.entries(key), now_ms, self._grid(key), self.rules)
        return None if before else self._next_timer_ms(key, now_ms)

    def _next_timer_ms(self, key: str, now_ms: int) -> int | None:
        """The instant for which a key needs a timer: with more than one device in a key, always the next one."""
        entries = self.entries(key)
        if entries and self.key_of is not by_device:
            return self._grid(key).after(now_ms)
        return next_timer_ms(entries, now_ms, self._grid(key), self.rules)

    def _set_timer(self, key: str, timer_ms: int | None) -> None:
        if timer_ms is not None:
            self.timers.setdefault(key, set()).add(timer_ms)

    def _grid(self, key: str) -> Grid:
        return grid_for_key(key, self.rules.heartbeat_ms)

    def _apply(self, device_id: str, outcome: Outcome) -> None:
        self._changes.extend((device_id, change) for change in outcome.changes)
        self.tally = Tally(*map(add, astuple(self.tally), astuple(outcome.tally)))
        _check_updated(self.sessions.get(device_id, {}), outcome)
        if outcome.sessions:
            self.sessions[device_id] = outcome.sessions
        else:
            self.sessions.pop(device_id, None)


def _check_updated(before: Sessions, outcome: Outcome) -> None:
    """`updated` is the difference between the sessions before and afterwards.

    An entry that the bound forgot and an event made again, as it was, may be in it too.
    """
    after = outcome.sessions
    is_same = {session_id for session_id, entry in outcome.updated.items() if before.get(session_id) == entry}
    assert not is_same or outcome.tally.evicted
    assert {session_id: entry for session_id, entry in outcome.updated.items() if session_id not in is_same} == {
        session_id: after.get(session_id)
        for session_id in before.keys() | after.keys()
        if before.get(session_id) != after.get(session_id)
    }
