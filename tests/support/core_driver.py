"""Plays micro-batches through the core as the Spark operator does: one state and its timers per grouping key."""

from collections.abc import Callable, Iterable

from sessionization.core.events import Change, Event
from sessionization.core.heartbeat_grid import Firing, grid_for_key
from sessionization.core.session_rules import Outcome, Tally, on_events, on_timer
from sessionization.core.session_state import Rules, SessionState, next_timer_ms


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
            before_ms = self._needed_ms(key, now_ms)
            for device_id, events in events_by_device.items():
                self._apply(device_id, on_events(self.sessions.get(device_id, {}), events, now_ms, self.rules))
            needed_ms = self._needed_ms(key, now_ms)
            if needed_ms is not None and (before_ms is None or needed_ms < before_ms):
                self.timers.setdefault(key, set()).add(needed_ms)
            if key in self.fired:
                self._fire(key, now_ms)
        return self._changes

    def _fire(self, key: str, now_ms: int) -> None:
        firing = Firing.from_timer(self.fired[key], now_ms, grid_for_key(key, self.rules.heartbeat_ms))
        for device_id in [device_id for device_id in self.sessions if self.key_of(device_id) == key]:
            self._apply(device_id, on_timer(self.sessions[device_id], firing, self.rules))
        timers_ms = {timer_ms for timer_ms in self.timers.pop(key) if timer_ms > now_ms}
        if (needed_ms := self._needed_ms(key, now_ms)) is not None:
            timers_ms.add(needed_ms)
        if timers_ms:
            self.timers[key] = timers_ms

    def _needed_ms(self, key: str, now_ms: int) -> int | None:
        """The instant for which a key needs a timer: with more than one device in a key, always the next one."""
        entries = [
            entry
            for device_id, sessions in self.sessions.items()
            if self.key_of(device_id) == key
            for entry in sessions.values()
        ]
        grid = grid_for_key(key, self.rules.heartbeat_ms)
        if entries and self.key_of is not by_device:
            return grid.after(now_ms)
        return next_timer_ms(entries, now_ms, grid, self.rules)

    def _apply(self, device_id: str, outcome: Outcome) -> None:
        self._changes.extend((device_id, change) for change in outcome.changes)
        total, added = self.tally, outcome.tally
        self.tally = Tally(
            total.events + added.events,
            total.duplicate_start + added.duplicate_start,
            total.duplicate_end + added.duplicate_end,
            total.evicted + added.evicted,
        )
        if outcome.sessions:
            self.sessions[device_id] = outcome.sessions
        else:
            self.sessions.pop(device_id, None)
