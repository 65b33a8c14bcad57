"""Plays micro-batches through the core as the Spark operator does: one state and one timer per grouping key."""

from collections.abc import Callable, Iterable

from sessionization.core.events import Change, Event
from sessionization.core.heartbeat_grid import Firing, grid_for_key
from sessionization.core.session_rules import Outcome, Tally, on_events, on_timer
from sessionization.core.session_state import Rules, SessionState, next_timer_ms


def by_device(device_id: str) -> str:
    return device_id


class Driver:
    """Holds `sessions` by device and `timers` by grouping key; `fired` are the timers of the last micro-batch."""

    def __init__(self, rules: Rules, key_of: Callable[[str], str] = by_device) -> None:
        self.rules = rules
        self.key_of = key_of
        self.sessions: dict[str, dict[int, SessionState]] = {}
        self.timers: dict[str, int] = {}
        self.tally = Tally()
        self.fired: dict[str, int] = {}
        self._changes: list[tuple[str, Change]] = []

    def micro_batch(self, now_ms: int, rows: Iterable[tuple[str, Event]]) -> list[tuple[str, Change]]:
        self._changes = []
        self.fired = {key: timer_ms for key, timer_ms in self.timers.items() if timer_ms <= now_ms}
        by_key: dict[str, dict[str, list[Event]]] = {key: {} for key in self.fired}
        for device_id, event in rows:
            by_key.setdefault(self.key_of(device_id), {}).setdefault(device_id, []).append(event)
        for key, events_by_device in by_key.items():
            for device_id, events in events_by_device.items():
                self._apply(device_id, on_events(self.sessions.get(device_id, {}), events, now_ms, self.rules))
            self._fire_and_set_timer(key, now_ms)
        return self._changes

    def _fire_and_set_timer(self, key: str, now_ms: int) -> None:
        grid = grid_for_key(key, self.rules.heartbeat_ms)
        devices = [device_id for device_id in self.sessions if self.key_of(device_id) == key]
        if key in self.fired:
            for device_id in devices:
                self._apply(
                    device_id,
                    on_timer(self.sessions[device_id], Firing.from_timer(self.fired[key], now_ms, grid), self.rules),
                )
        entries = [entry for device_id in devices for entry in self.sessions.get(device_id, {}).values()]
        timer_ms = next_timer_ms(entries, now_ms, grid, self.rules)
        if timer_ms is None:
            self.timers.pop(key, None)
        else:
            self.timers[key] = timer_ms

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
