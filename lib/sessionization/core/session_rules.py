"""The session rules of one device: (sessions, events or a timer, now) -> (sessions, changes).

A device's sessions are a mapping from session id to `SessionState`. Nothing here reads a clock, and no argument is
ever modified. An entry that does not change stays the same object: so the operator sees that it need not be written.
The comments name the rules S1 to S6, E1 to E4 and T1 to T4 of docs/session-rules.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sessionization.core.events import Change, ChangeKind, End, EndReason, Event, Start, sort_events
from sessionization.core.heartbeat_grid import Firing
from sessionization.core.session_state import Closed, Live, PendingEnd, Rules, Sessions, SessionState, deadline_ms


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of all events, of the duplicates, which cause no change, and of the evicted entries."""

    events: int = 0
    duplicate_start: int = 0
    duplicate_end: int = 0
    evicted: int = 0


_NO_TALLY = Tally()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The device's sessions afterwards, the changes in the order in which they happened, and the counts."""

    sessions: dict[int, SessionState]
    changes: list[Change]
    tally: Tally


def on_events(sessions: Sessions, events: Iterable[Event], now_ms: int, rules: Rules) -> Outcome:
    """Sort one device's events of one micro-batch, and apply them.

    >>> from sessionization.core.events import Platform, Start
    >>> outcome = on_events({}, [Start(7, 1_000, Platform.PC, 1_500)], now_ms=2_000, rules=Rules())
    >>> outcome.sessions
    {7: Live(started_ms=1000, opened_ms=2000, account_id=None, platform=<Platform.PC: 'pc'>)}
    """
    device = _Device(dict(sessions), now_ms)
    for event in sort_events(events):
        device.apply(event, rules)
    return device.outcome()


def on_timer(sessions: Sessions, firing: Firing, rules: Rules) -> Outcome:
    """Apply a timer that fires, after the events of the same micro-batch.

    Emit at most one row per entry, hence at most one heartbeat per session, even if the timer fires late.
    """
    device = _Device(dict(sessions), firing.now_ms)
    for session_id in sorted(sessions):
        entry = sessions[session_id]
        if not isinstance(entry, Live):
            if deadline_ms(entry, rules) <= firing.now_ms:  # T3, T4
                device.forget(session_id, entry)
        elif firing.now_ms - entry.opened_ms >= rules.session_timeout_ms:  # T1
            device.close(session_id, entry, entry.started_ms + rules.session_timeout_ms, EndReason.TIMED_OUT)
        else:  # T2
            device.beat(session_id, entry, firing)
    return device.outcome()


class _Device:
    """A working copy of one device's sessions while events or a timer are applied to it."""

    def __init__(self, sessions: dict[int, SessionState], now_ms: int) -> None:
        self._sessions = sessions
        self._now_ms = now_ms
        self._event: Event | None = None
        self._changes: list[Change] = []
        self._events = self._duplicate_start = self._duplicate_end = self._evicted = 0

    def outcome(self) -> Outcome:
        counts = self._events, self._duplicate_start, self._duplicate_end, self._evicted
        tally = Tally(*counts) if self._events else _NO_TALLY
        return Outcome(self._sessions, self._changes, tally)

    def apply(self, event: Event, rules: Rules) -> None:
        self._event = event
        self._events += 1
        match event:
            case Start():
                self._start(event)
            case End():
                self._end(event)
        while len(self._sessions) > rules.max_sessions_per_device:
            self._evict()

    def _start(self, start: Start) -> None:
        known = self._sessions.get(start.session_id)
        if isinstance(known, Live | Closed):  # S1
            self._duplicate_start += 1
            return
        order = (start.at_ms, start.session_id)
        live = self._live()
        account_id = start.account_id
        if known is not None and account_id is None:
            account_id = known.account_id
        opened = Live(start.at_ms, self._now_ms, account_id, start.platform)
        next_start_ms = self._next_start_ms(order)

        if known is not None:  # S2
            if live is not None and (live[1].started_ms, live[0]) < order:
                self.close(*live, start.at_ms, EndReason.SUPERSEDED)
            self._emit_started(start.session_id, opened)
            self.close(start.session_id, opened, known.at_ms, EndReason.REPORTED, known.foreground_s)
        elif next_start_ms is not None:  # S3
            self._emit_started(start.session_id, opened)
            self.close(start.session_id, opened, next_start_ms, EndReason.SUPERSEDED)
        else:
            if live is not None:  # S4
                self.close(*live, start.at_ms, EndReason.SUPERSEDED)
            self._sessions[start.session_id] = opened  # S5
            self._emit_started(start.session_id, opened)
        self._cut_session_before(order)

    def _cut_session_before(self, order: tuple[int, int]) -> None:
        """S6: cut the session directly before a new Start, so that it ends no later than that Start."""
        earlier = [
            (entry.started_ms, session_id)
            for session_id, entry in self._sessions.items()
            if not isinstance(entry, PendingEnd) and (entry.started_ms, session_id) < order
        ]
        if not earlier:
            return
        _, session_id = max(earlier)
        previous = self._sessions[session_id]
        if isinstance(previous, Closed) and previous.ended_ms > order[0]:
            self._put_closed(session_id, replace(previous, ended_ms=order[0], revision=previous.revision + 1))

    def _end(self, end: End) -> None:
        match self._sessions.get(end.session_id):
            case Live() as live:  # E1
                account_id = end.account_id if live.account_id is None else live.account_id
                opened = replace(live, account_id=account_id)
                self.close(end.session_id, opened, end.at_ms, EndReason.REPORTED, end.foreground_s)
            case Closed() as closed if closed.reason.is_inferred:  # E2
                reported = replace(
                    closed,
                    ended_ms=self._clamp(end.session_id, closed.started_ms, end.at_ms),
                    reason=EndReason.REPORTED,
                    revision=closed.revision + 1,
                    foreground_s=end.foreground_s,
                    account_id=end.account_id if closed.account_id is None else closed.account_id,
                )
                self._put_closed(end.session_id, reported)
            case Closed() | PendingEnd():  # E3
                self._duplicate_end += 1
            case None:  # E4, unknown or forgotten: see "A late End" in docs/session-rules.md
                self._sessions[end.session_id] = PendingEnd(
                    end.at_ms, end.foreground_s, end.account_id, end.platform, self._now_ms, self._next_closing_order()
                )

    def _evict(self) -> None:
        """Forget the session that was closed first; without closed sessions, the pending End that was seen first."""
        candidates = [
            (isinstance(entry, PendingEnd), entry.closing_order, session_id)
            for session_id, entry in self._sessions.items()
            if not isinstance(entry, Live)
        ]
        _, _, session_id = min(candidates)
        entry = self._sessions[session_id]
        assert not isinstance(entry, Live)
        self.forget(session_id, entry)
        self._evicted += 1

    def close(
        self, session_id: int, live: Live, at_ms: int, reason: EndReason, foreground_s: int | None = None
    ) -> None:
        """End a session for the first time, at `at_ms` clamped."""
        ended_ms = self._clamp(session_id, live.started_ms, at_ms)
        closing_order = self._next_closing_order()
        closed = Closed(
            live.started_ms,
            ended_ms,
            reason,
            0,
            foreground_s,
            live.account_id,
            live.platform,
            self._now_ms,
            closing_order,
        )
        self._put_closed(session_id, closed)

    def beat(self, session_id: int, live: Live, firing: Firing) -> None:
        """Emit the newest due heartbeat of a live session, if one is due and was not emitted yet."""
        beat = firing.beat_number(live.opened_ms)
        if beat < 1 or firing.missed < 0:
            return
        self._changes.append(
            Change(
                session_id=session_id,
                account_id=live.account_id,
                platform=live.platform,
                kind=ChangeKind.HEARTBEAT,
                processed_ms=self._now_ms,
                started_ms=live.started_ms,
                duration_ms=self._now_ms - live.opened_ms,
                beat=beat,
                missed_beats=min(beat - 1, firing.missed),
                due_ms=firing.due_ms,
            )
        )

    def forget(self, session_id: int, entry: Closed | PendingEnd) -> None:
        """Remove an entry; emit a pending End as an orphan, so that it is not lost."""
        del self._sessions[session_id]
        if isinstance(entry, PendingEnd):
            self._emit_ended(session_id, entry)

    def _live(self) -> tuple[int, Live] | None:
        """Return the id and the entry of the device's live session, None without one."""
        for session_id, entry in self._sessions.items():
            if isinstance(entry, Live):
                return session_id, entry
        return None

    def _next_start_ms(self, order: tuple[int, int]) -> int | None:
        """Return `started_at` of the earliest remembered session that is later than `order`."""
        return min(
            (
                entry.started_ms
                for session_id, entry in self._sessions.items()
                if not isinstance(entry, PendingEnd) and (entry.started_ms, session_id) > order
            ),
            default=None,
        )

    def _clamp(self, session_id: int, started_ms: int, at_ms: int) -> int:
        """Return the end nearest to `at_ms` that is not before the session's start and not after the next one's."""
        next_start_ms = self._next_start_ms((started_ms, session_id))
        return max(started_ms, at_ms if next_start_ms is None else min(at_ms, next_start_ms))

    def _next_closing_order(self) -> int:
        return 1 + max(
            (entry.closing_order for entry in self._sessions.values() if not isinstance(entry, Live)), default=-1
        )

    def _put_closed(self, session_id: int, closed: Closed) -> None:
        self._sessions[session_id] = closed
        self._emit_ended(session_id, closed)

    def _emit_started(self, session_id: int, live: Live) -> None:
        self._changes.append(
            Change(
                session_id=session_id,
                account_id=live.account_id,
                platform=live.platform,
                kind=ChangeKind.STARTED,
                processed_ms=self._now_ms,
                started_ms=live.started_ms,
                duration_ms=0,
                event_ms=None if self._event is None else self._event.at_ms,
                ingested_ms=None if self._event is None else self._event.ingested_ms,
            )
        )

    def _emit_ended(self, session_id: int, entry: Closed | PendingEnd) -> None:
        """Emit the end of a closed session, or an orphaned end for an End whose Start has not come."""
        if isinstance(entry, Closed):
            reason, revision, started_ms, ended_ms = entry.reason, entry.revision, entry.started_ms, entry.ended_ms
        else:
            reason, revision, started_ms, ended_ms = EndReason.ORPHANED, 0, None, entry.at_ms
        self._changes.append(
            Change(
                session_id=session_id,
                account_id=entry.account_id,
                platform=entry.platform,
                kind=ChangeKind.ENDED,
                processed_ms=self._now_ms,
                started_ms=started_ms,
                end_reason=reason,
                revision=revision,
                ended_ms=ended_ms,
                duration_ms=None if started_ms is None else ended_ms - started_ms,
                foreground_s=entry.foreground_s,
                event_ms=None if self._event is None else self._event.at_ms,
                ingested_ms=None if self._event is None else self._event.ingested_ms,
            )
        )
