"""Plays micro-batches through the core as the Spark operator does: one state and one timer per grouping key."""

from collections.abc import Callable, Iterable

from sessionization.core.events import Change, Event
from sessionization.core.heartbeat_grid import Firing, grid_of
from sessionization.core.session_rules import Outcome, Tally, on_events, on_timer
from sessionization.core.session_state import Rules, SessionState, next_timer_ms


def by_device(device_id: str) -> str:
    return device_id


class Driver:
    """`sessions` by device, `timers` by grouping key, `fired` the timers that the last micro-batch let fire."""

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
        for key, events_of in by_key.items():
            for device_id, events in events_of.items():
                self._keep(device_id, on_events(self.sessions.get(device_id, {}), events, now_ms, self.rules))
            self._timer(key, now_ms)
        return self._changes

    def _timer(self, key: str, now_ms: int) -> None:
        grid = grid_of(key, self.rules.heartbeat_ms)
        devices = [device_id for device_id in self.sessions if self.key_of(device_id) == key]
        if key in self.fired:
            for device_id in devices:
                self._keep(
                    device_id, on_timer(self.sessions[device_id], Firing.of(self.fired[key], now_ms, grid), self.rules)
                )
        entries = [entry for device_id in devices for entry in self.sessions.get(device_id, {}).values()]
        timer_ms = next_timer_ms(entries, now_ms, grid, self.rules)
        if timer_ms is None:
            self.timers.pop(key, None)
        else:
            self.timers[key] = timer_ms

    def _keep(self, device_id: str, outcome: Outcome) -> None:
        self._changes.extend((device_id, change) for change in outcome.changes)
        so_far, now = self.tally, outcome.tally
        self.tally = Tally(
            so_far.events + now.events,
            so_far.duplicate_start + now.duplicate_start,
            so_far.duplicate_end + now.duplicate_end,
            so_far.evicted + now.evicted,
        )
        if outcome.sessions:
            self.sessions[device_id] = outcome.sessions
        else:
            self.sessions.pop(device_id, None)
