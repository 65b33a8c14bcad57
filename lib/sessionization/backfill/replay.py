"""Replay one device's history through the core: its micro-batches and timers, without heartbeats."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sessionization.backfill.micro_batch_clock import MicroBatchClock
from sessionization.core.events import Change, ChangeKind, Event
from sessionization.core.heartbeat_grid import Firing, Grid
from sessionization.core.session_rules import on_events, on_timer
from sessionization.core.session_state import Live, Rules, SessionState, deadline_ms, next_timer_ms, timer_for_events_ms

Comparable = tuple[Any, ...]


class FoldedSession(NamedTuple):
    """The four values that make a session's row, as in `spark.tables.rollup`.

    `first_start` is (`started_ms`, `account_id`, `platform`), or None. `shown_end` is (`rank`, `revision`, `ended_ms`,
    `foreground_s`, `account_id`, `end_reason`, `platform`), or None.
    """

    started_ms: int | None
    first_start: Comparable | None
    shown_end: Comparable | None
    updated_ms: int


@dataclass
class DeviceReplay:
    """A device's sessions while its micro-batches are replayed one after the other."""

    grid: Grid
    rules: Rules
    clock: MicroBatchClock
    changes: list[Change] = field(default_factory=list)
    _sessions: dict[int, SessionState] = field(default_factory=dict)
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

        While a session is live, a timer fires once per heartbeat. Timers that would only emit a heartbeat are skipped:
        each would set the next one, up to the first instant at which an entry times out or expires.
        """
        while self._timers_ms:
            if any(isinstance(entry, Live) for entry in self._sessions.values()):
                relevant_ms = min(map(self._relevant_at_ms, self._sessions.values()))
                first_ms = max(min(self._timers_ms), self.grid.at_or_before(min(relevant_ms, before_ms)))
                self._timers_ms = {first_ms, *(timer_ms for timer_ms in self._timers_ms if timer_ms > first_ms)}
            now_ms = self.clock.at_or_after(min(self._timers_ms))
            if now_ms >= before_ms:
                return
            self._fire_timers(now_ms)

    def _relevant_at_ms(self, entry: SessionState) -> int:
        return (
            entry.opened_ms + self.rules.session_timeout_ms
            if isinstance(entry, Live)
            else deadline_ms(entry, self.rules)
        )

    def _fire_timers(self, now_ms: int) -> None:
        """Fire the timers that are due, as one, and set the next one."""
        first_ms = min(self._timers_ms, default=now_ms + 1)
        if first_ms > now_ms:
            return
        outcome = on_timer(self._sessions, Firing.from_timer(first_ms, now_ms, self.grid), self.rules)
        self._sessions = outcome.sessions
        self.changes += (change for change in outcome.changes if change.kind is not ChangeKind.HEARTBEAT)
        needed_ms = next_timer_ms(self._sessions.values(), now_ms, self.grid, self.rules)
        self._timers_ms = {timer_ms for timer_ms in self._timers_ms if timer_ms > now_ms}
        if needed_ms is not None:
            self._timers_ms.add(needed_ms)


def replay(
    micro_batches: Iterable[tuple[int, list[Event]]], grid: Grid, rules: Rules, clock: MicroBatchClock
) -> list[Change]:
    """The changes of a device's sessions without heartbeats, in the order in which they happened.

    Args:
        micro_batches: the clock and the events of each micro-batch that has events of the device, ascending.
        grid: the grid of the device's grouping key.
        rules: the rules in force.
        clock: the clock of all micro-batches; timers fire up to the last one.
    """
    device = DeviceReplay(grid, rules, clock)
    for now_ms, events in micro_batches:
        device.micro_batch(now_ms, events)
    device.idle(clock.until_ms + 1)
    return device.changes


def fold_changes(changes: Iterable[Change]) -> Iterator[tuple[int, FoldedSession]]:
    """Fold a device's changes into one row per session (docs/session-rules.md, "The `sessions` table")."""
    by_session: dict[int, list[Change]] = {}
    for change in changes:
        by_session.setdefault(change.session_id, []).append(change)
    for session_id, changes_of_session in by_session.items():
        starts = [
            (change.started_ms, change.account_id, change.platform)
            for change in changes_of_session
            if change.kind is ChangeKind.STARTED
        ]
        ends = [_end(change) for change in changes_of_session if change.kind is ChangeKind.ENDED]
        yield (
            session_id,
            FoldedSession(
                min(
                    (change.started_ms for change in changes_of_session if change.started_ms is not None), default=None
                ),
                min(starts, key=_nulls_least, default=None),
                max(ends, key=_nulls_least, default=None),
                max(change.processed_ms for change in changes_of_session),
            ),
        )


def _end(change: Change) -> Comparable:
    assert change.end_reason is not None
    return (
        change.end_reason.rank,
        change.revision,
        change.ended_ms,
        change.foreground_s,
        change.account_id,
        change.end_reason,
        change.platform,
    )


def _nulls_least(values: Comparable) -> Comparable:
    return tuple((value is not None, value) for value in values)
