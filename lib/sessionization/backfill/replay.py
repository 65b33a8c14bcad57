"""One device's history through the core: micro-batches, timers and all, without its heartbeats."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sessionization.backfill.micro_batch_clock import MicroBatchClock
from sessionization.core.events import Change, ChangeKind, EndReason, Event
from sessionization.core.heartbeat_grid import Firing, Grid
from sessionization.core.session_rules import on_events, on_timer
from sessionization.core.session_state import Live, Rules, SessionState, deadline_ms, next_timer_ms

Comparable = tuple[Any, ...]


class FoldedSession(NamedTuple):
    """What a session's row is made of: the same four as in `spark.rollup`, field by field.

    `first_start` is (`started_ms`, `account_id`, `platform`), `shown_end` is (`rank`, `revision`, `ended_ms`,
    `foreground_s`, `account_id`, `end_reason`, `platform`); None where there is none.
    """

    started_ms: int | None
    first_start: Comparable | None
    shown_end: Comparable | None
    updated_ms: int


@dataclass
class DeviceReplay:
    """A device's sessions while its micro-batches are played, one after the other."""

    grid: Grid
    rules: Rules
    clock: MicroBatchClock
    changes: list[Change] = field(default_factory=list)
    _sessions: dict[int, SessionState] = field(default_factory=dict)
    _timer_ms: int | None = None

    def micro_batch(self, now_ms: int, events: Iterable[Event]) -> None:
        """Apply the events of one micro-batch, after what timers did in those before it."""
        self.idle(now_ms)
        outcome = on_events(self._sessions, events, now_ms, self.rules)
        self._sessions = outcome.sessions
        self.changes += outcome.changes
        self._timer(now_ms)

    def idle(self, before_ms: int) -> None:
        """Let the timers fire of the micro-batches before an instant.

        While a session is live there is one a heartbeat, most of which do nothing but beat: those are passed over. A
        timer that is passed over would have set the next one, up to that of the instant that matters.
        """
        while self._timer_ms is not None:
            if any(isinstance(entry, Live) for entry in self._sessions.values()):
                matters_ms = min(map(self._until_ms, self._sessions.values()))
                self._timer_ms = max(self._timer_ms, self.grid.at_or_before(min(matters_ms, before_ms)))
            now_ms = self.clock.at_or_after(self._timer_ms)
            if now_ms >= before_ms:
                return
            self._timer(now_ms)

    def _until_ms(self, entry: SessionState) -> int:
        return (
            entry.opened_ms + self.rules.session_timeout_ms
            if isinstance(entry, Live)
            else deadline_ms(entry, self.rules)
        )

    def _timer(self, now_ms: int) -> None:
        """Let the timer fire if it is due, and set the next one."""
        if self._timer_ms is not None and self._timer_ms <= now_ms:
            outcome = on_timer(self._sessions, Firing.of(self._timer_ms, now_ms, self.grid), self.rules)
            self._sessions = outcome.sessions
            self.changes += (change for change in outcome.changes if change.kind is not ChangeKind.HEARTBEAT)
        self._timer_ms = next_timer_ms(self._sessions.values(), now_ms, self.grid, self.rules)


def replay(
    micro_batches: Iterable[tuple[int, list[Event]]], grid: Grid, rules: Rules, clock: MicroBatchClock
) -> list[Change]:
    """The changes of a device's sessions, heartbeats left out, in the order in which they happened.

    Args:
        micro_batches: the events of each micro-batch with any, and its clock, ascending.
        grid: that of the device's grouping key.
        rules: the rules in force.
        clock: when the micro-batches in between were; timers fire up to the last one.
    """
    device = DeviceReplay(grid, rules, clock)
    for now_ms, events in micro_batches:
        device.micro_batch(now_ms, events)
    device.idle(clock.until_ms + 1)
    return device.changes


def fold_changes(changes: Iterable[Change]) -> Iterator[tuple[int, FoldedSession]]:
    """A device's changes, one row per session (docs/session-rules.md, "The `sessions` table")."""
    of_session: dict[int, list[Change]] = {}
    for change in changes:
        of_session.setdefault(change.session_id, []).append(change)
    for session_id, its_changes in of_session.items():
        starts = [(c.started_ms, c.account_id, c.platform) for c in its_changes if c.kind is ChangeKind.STARTED]
        ends = [_end(c) for c in its_changes if c.kind is ChangeKind.ENDED]
        yield (
            session_id,
            FoldedSession(
                min((c.started_ms for c in its_changes if c.started_ms is not None), default=None),
                min(starts, key=_nulls_least, default=None),
                max(ends, key=_nulls_least, default=None),
                max(c.processed_ms for c in its_changes),
            ),
        )


def _end(c: Change) -> Comparable:
    rank = 2 if c.end_reason is EndReason.REPORTED else 1 if c.end_reason is EndReason.ORPHANED else 0
    return rank, c.revision, c.ended_ms, c.foreground_s, c.account_id, c.end_reason, c.platform


def _nulls_least(values: Comparable) -> Comparable:
    return tuple((value is not None, value) for value in values)
