"""Replay one device's history through the core: its micro-batches and timers, with or without heartbeats."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from sessionization.core.events import Change, ChangeKind, Event, SessionId
from sessionization.core.heartbeat_grid import Firing, Grid
from sessionization.core.session_rules import on_events, on_timer
from sessionization.core.session_state import (
    Live,
    Rules,
    SessionState,
    deadline_ms,
    next_timer_ms,
    over_ms,
    timer_for_events_ms,
)
from sessionization.spark.replay.micro_batch_clock import MicroBatchClock


@dataclass
class DeviceReplay:
    """A device's sessions while its micro-batches are replayed one after the other."""

    grid: Grid
    rules: Rules
    clock: MicroBatchClock
    heartbeats: bool = False
    changes: list[Change] = field(default_factory=list)
    _sessions: dict[SessionId, SessionState] = field(default_factory=dict)
    _timers_ms: set[int] = field(default_factory=set)

    def micro_batch(self, now_ms: int, events: Iterable[Event]) -> None:
        """Fire the timers of earlier micro-batches, then apply the events of this one."""
        self.idle(now_ms)
        before = self._sessions
        outcome = on_events(before, events, now_ms, self.rules)
        self._sessions = outcome.sessions
        self.changes += outcome.changes
        timer_ms = timer_for_events_ms(before.values(), self._sessions.values(), now_ms, self.grid, self.rules)
        if timer_ms is not None:
            self._timers_ms.add(timer_ms)
        self._fire_timers(now_ms)

    def idle(self, before_ms: int) -> None:
        """Fire the timers of the micro-batches before an instant.

        While a session is live, a timer fires once per heartbeat. Without heartbeats, timers that would only emit one
        are skipped: each would set the next one, up to the first instant at which an entry times out or expires.
        """
        while self._timers_ms:
            timer_ms = min(self._timers_ms)
            may_skip = timer_ms < before_ms and not self.heartbeats
            if may_skip and any(isinstance(entry, Live) for entry in self._sessions.values()):
                skipped_to_ms = self.grid.at_or_before(min(self._relevant_ms(), before_ms))
                if skipped_to_ms > timer_ms:
                    self._timers_ms = {skipped_to_ms, *(other for other in self._timers_ms if other > skipped_to_ms)}
                    timer_ms = skipped_to_ms
            if timer_ms >= before_ms or (now_ms := self.clock.at_or_after(timer_ms)) >= before_ms:
                return
            self._fire_timers(now_ms)

    def _relevant_ms(self) -> int:
        """The first instant at which a timer can do more than emit heartbeats."""
        return min(
            over_ms(entry, self.rules) if isinstance(entry, Live) else deadline_ms(entry, self.rules)
            for entry in self._sessions.values()
        )

    def _fire_timers(self, now_ms: int) -> None:
        """Fire the timers that are due, as one, and set the next one."""
        first_ms = min(self._timers_ms, default=now_ms + 1)
        if first_ms > now_ms:
            return
        if self._sessions and (self.heartbeats or self._relevant_ms() <= now_ms):
            outcome = on_timer(self._sessions, Firing.from_timer(first_ms, now_ms, self.grid), self.rules)
            self._sessions = outcome.sessions
            self.changes += (
                change for change in outcome.changes if self.heartbeats or change.kind is not ChangeKind.HEARTBEAT
            )
        needed_ms = next_timer_ms(self._sessions.values(), now_ms, self.grid, self.rules)
        self._timers_ms = {timer_ms for timer_ms in self._timers_ms if timer_ms > now_ms}
        if needed_ms is not None:
            self._timers_ms.add(needed_ms)


def replay(
    micro_batches: Iterable[tuple[int, list[Event]]],
    grid: Grid,
    rules: Rules,
    clock: MicroBatchClock,
    *,
    heartbeats: bool = False,
) -> list[Change]:
    """The changes of a device's sessions, in the order in which they happened.

    Args:
        micro_batches: the clock and the events of each micro-batch that has events of the device, ascending.
        grid: the grid of the device's grouping key.
        rules: the rules in force.
        clock: the clock of all micro-batches; timers fire up to the last one.
        heartbeats: whether they are among the changes.
    """
    device = DeviceReplay(grid, rules, clock, heartbeats)
    for now_ms, events in micro_batches:
        device.micro_batch(now_ms, events)
    device.idle(clock.until_ms + 1)
    return device.changes
