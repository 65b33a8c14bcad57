"""The session rules of one device: (sessions, events or a timer, now) -> (sessions, changes).

A device's sessions are a mapping from session id to `SessionState`. Nothing here reads a clock, and no argument is
ever modified. The comments name the rules S1 to S6, E1 to E4 and T1 to T4 of docs/session-rules.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from sessionization.core.events import Change, ChangeKind, End, EndReason, Event, SessionId, Start, sort_events
from sessionization.core.heartbeat_grid import Firing
from sessionization.core.session_state import (
    Closed,
    Expiry,
    Live,
    PendingEnd,
    Rules,
    Sessions,
    SessionState,
    expiry_at,
    remembered_since_ms,
)


@dataclass(slots=True)
class Tally:
    """Counts of all events, of the duplicates, which cause no change, and of the evicted entries."""

    events: int = 0
    duplicate_start: int = 0
    duplicate_end: int = 0
    evicted: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What events or a timer did to a device.

    `sessions` are all of the device's sessions afterwards, and `changes` what was emitted, in the order in which it
    happened. `updated` has the entries that differ from those before, None for one that was forgotten.
    """

    sessions: dict[SessionId, SessionState]
    changes: list[Change]
    updated: dict[SessionId, SessionState | None]
    tally: Tally


def on_events(sessions: Sessions, events: Iterable[Event], now_ms: int, rules: Rules) -> Outcome:
    """Sort one device's events of one micro-batch, and apply them.

    >>> from sessionization.core.events import Platform, Start
    >>> outcome = on_events({}, [Start(7, 1_000, Platform.PC, 1_500)], now_ms=2_000, rules=Rules())
    >>> outcome.sessions
    {7: Live(started_ms=1000, opened_ms=2000, account_id=None, platform=<Platform.PC: 'pc'>, labels=())}
    """
    device = _Device(sessions, now_ms)
    for event in sort_events(events):
        device.apply(event, rules)
    return device.outcome()


def on_timer(sessions: Sessions, firing: Firing, rules: Rules) -> Outcome:
    """Apply a timer that fires, after the events of the same micro-batch.

    Emit at most one row per entry, hence at most one heartbeat per session, even if the timer fires late.
    """
    device = _Device(sessions, firing.now_ms)
    device.fire(firing, expiry_at(firing.now_ms, rules), rules)
    return device.outcome()


_S = TypeVar("_S", Live, Closed)


class _Place(NamedTuple):
    """A session's place in the order of a device's sessions."""

    started_ms: int
    session_id: SessionId


class _Device:
    """A working copy of one device's sessions while events or a timer are applied to it."""

    def __init__(self, sessions: Sessions, now_ms: int) -> None:
        self._before = sessions
        self._sessions = dict(sessions)
        self._updated: dict[SessionId, SessionState | None] = {}
        self._changes: list[Change] = []
        self._tally = Tally()
        self._event: Event | None = None
        self._now_ms = now_ms

    def outcome(self) -> Outcome:
        return Outcome(self._sessions, self._changes, self._updated, self._tally)

    def apply(self, event: Event, rules: Rules) -> None:
        self._event = event
        self._tally.events += 1
        match event:
            case Start():
                self._start(event)
            case End():
                self._end(event)
        while len(self._sessions) > rules.max_sessions_per_device:
            self._evict()

    def fire(self, firing: Firing, expiry: Expiry, rules: Rules) -> None:
        for session_id, entry in sorted(self._before.items()):
            if not isinstance(entry, Live):
                if remembered_since_ms(entry) <= expiry.remembered_by_ms:  # T3, T4
                    self._forget(session_id, entry)
            elif entry.opened_ms <= expiry.opened_by_ms:  # T1
                self._close(session_id, entry, entry.started_ms + rules.session_timeout_ms, EndReason.TIMED_OUT)
            else:  # T2
                self._beat(session_id, entry, firing)

    def _start(self, start: Start) -> None:
        known = self._sessions.get(start.session_id)
        if isinstance(known, Live | Closed):  # S1
            self._tally.duplicate_start += 1
            return
        place = _Place(start.at_ms, start.session_id)
        opened = Live(start.at_ms, self._now_ms, start.account_id, start.platform, start.labels)
        if known is not None:
            self._start_with_pending_end(place, opened, known)
        elif (next_start_ms := self._next_start_ms(place)) is not None:
            self._start_before_a_later_session(place, opened, next_start_ms)
        else:
            self._start_newest(place, opened)
        self._cut_session_before(place)

    def _start_with_pending_end(self, place: _Place, opened: Live, end: PendingEnd) -> None:
        """S2: the session is over already; it supersedes an earlier live session, and leaves a later one alone."""
        opened = _completed(opened, end)
        live = self._live()
        if live is not None and _place_of(*live) < place:
            self._close(*live, place.started_ms, EndReason.SUPERSEDED)
        self._emit_started(place.session_id, opened)
        self._close(place.session_id, opened, end.at_ms, EndReason.REPORTED, end.foreground_s)

    def _start_before_a_later_session(self, place: _Place, opened: Live, next_start_ms: int) -> None:
        """S3: the session is old news, because the device has started another one since."""
        self._emit_started(place.session_id, opened)
        self._close(place.session_id, opened, next_start_ms, EndReason.SUPERSEDED)

    def _start_newest(self, place: _Place, opened: Live) -> None:
        """S4, S5: the session is live from now on, in place of the one that is."""
        if (live := self._live()) is not None:
            self._close(*live, place.started_ms, EndReason.SUPERSEDED)
        self._put(place.session_id, opened)
        self._emit_started(place.session_id, opened)

    def _cut_session_before(self, place: _Place) -> None:
        """S6: cut the session directly before a new Start, so that it ends no later than that Start."""
        earlier = [
            (entry.started_ms, session_id)
            for session_id, entry in self._sessions.items()
            if not isinstance(entry, PendingEnd) and (entry.started_ms, session_id) < place
        ]
        if not earlier:
            return
        _, session_id = max(earlier)
        previous = self._sessions[session_id]
        if isinstance(previous, Closed) and previous.ended_ms > place.started_ms:
            self._put_ended(session_id, replace(previous, ended_ms=place.started_ms, revision=previous.revision + 1))

    def _end(self, end: End) -> None:
        match self._sessions.get(end.session_id):
            case Live() as live:  # E1
                live = _completed(live, end)
                self._close(end.session_id, live, end.at_ms, EndReason.REPORTED, end.foreground_s)
            case Closed() as closed if closed.reason.is_inferred:  # E2
                closed = _completed(closed, end)
                reported = replace(
                    closed,
                    ended_ms=self._clamp(_place_of(end.session_id, closed), end.at_ms),
                    reason=EndReason.REPORTED,
                    revision=closed.revision + 1,
                    foreground_s=end.foreground_s,
                )
                self._put_ended(end.session_id, reported)
            case Closed() | PendingEnd():  # E3
                self._tally.duplicate_end += 1
            case None:  # E4, unknown or forgotten: see "A late End" in docs/session-rules.md
                pending_end = PendingEnd(
                    at_ms=end.at_ms,
                    foreground_s=end.foreground_s,
                    account_id=end.account_id,
                    platform=end.platform,
                    seen_ms=self._now_ms,
                    closing_order=self._next_closing_order(),
                    labels=end.labels,
                )
                self._put(end.session_id, pending_end)

    def _evict(self) -> None:
        """Forget the session that was closed first; without closed sessions, the pending End that was seen first."""
        candidates = [
            (isinstance(entry, PendingEnd), entry.closing_order, session_id, entry)
            for session_id, entry in self._sessions.items()
            if not isinstance(entry, Live)
        ]
        *_, session_id, entry = min(candidates)
        self._forget(session_id, entry)
        self._tally.evicted += 1

    def _close(
        self, session_id: SessionId, live: Live, at_ms: int, reason: EndReason, foreground_s: int | None = None
    ) -> None:
        """End a session for the first time, at `at_ms` clamped."""
        closed = Closed(
            started_ms=live.started_ms,
            ended_ms=self._clamp(_place_of(session_id, live), at_ms),
            reason=reason,
            revision=0,
            foreground_s=foreground_s,
            account_id=live.account_id,
            platform=live.platform,
            closed_ms=self._now_ms,
            closing_order=self._next_closing_order(),
            labels=live.labels,
        )
        self._put_ended(session_id, closed)

    def _beat(self, session_id: SessionId, live: Live, firing: Firing) -> None:
        """T2: emit the newest due heartbeat of a live session, if one is due and was not emitted yet."""
        [beat] = beats = firing.beats([live.opened_ms])
        if beat:
            [missed_beats] = firing.missed_beats(beats)
            self._emit(
                ChangeKind.HEARTBEAT,
                session_id,
                live,
                live.started_ms,
                duration_ms=firing.now_ms - live.opened_ms,
                beat=beat,
                missed_beats=missed_beats,
                due_ms=firing.due_ms,
            )

    def _forget(self, session_id: SessionId, entry: Closed | PendingEnd) -> None:
        """Remove an entry; emit a pending End as an orphan, so that it is not lost."""
        del self._sessions[session_id]
        if session_id in self._before:
            self._updated[session_id] = None
        else:
            del self._updated[session_id]
        if isinstance(entry, PendingEnd):
            self._emit(
                ChangeKind.ENDED,
                session_id,
                entry,
                None,
                end_reason=EndReason.ORPHANED,
                ended_ms=entry.at_ms,
                foreground_s=entry.foreground_s,
            )

    def _live(self) -> tuple[SessionId, Live] | None:
        """Return the id and the entry of the device's live session, None without one."""
        for session_id, entry in self._sessions.items():
            if isinstance(entry, Live):
                return session_id, entry
        return None

    def _next_start_ms(self, place: _Place) -> int | None:
        """Return `started_at` of the earliest remembered session that is later than `place`."""
        return min(
            (
                entry.started_ms
                for session_id, entry in self._sessions.items()
                if not isinstance(entry, PendingEnd) and (entry.started_ms, session_id) > place
            ),
            default=None,
        )

    def _clamp(self, place: _Place, at_ms: int) -> int:
        """Return the end nearest to `at_ms` that is not before the session's start and not after the next one's."""
        next_start_ms = self._next_start_ms(place)
        return max(place.started_ms, at_ms if next_start_ms is None else min(at_ms, next_start_ms))

    def _next_closing_order(self) -> int:
        return 1 + max(
            (entry.closing_order for entry in self._sessions.values() if not isinstance(entry, Live)), default=-1
        )

    def _put(self, session_id: SessionId, entry: SessionState) -> None:
        self._sessions[session_id] = self._updated[session_id] = entry

    def _put_ended(self, session_id: SessionId, closed: Closed) -> None:
        self._put(session_id, closed)
        self._emit(
            ChangeKind.ENDED,
            session_id,
            closed,
            closed.started_ms,
            end_reason=closed.reason,
            revision=closed.revision,
            ended_ms=closed.ended_ms,
            duration_ms=closed.ended_ms - closed.started_ms,
            foreground_s=closed.foreground_s,
        )

    def _emit_started(self, session_id: SessionId, live: Live) -> None:
        self._emit(ChangeKind.STARTED, session_id, live, live.started_ms, duration_ms=0)

    def _emit(
        self, kind: ChangeKind, session_id: SessionId, entry: SessionState, started_ms: int | None, **fields: Any
    ) -> None:
        """Emit a change with what every change says: whose it is, when, and the event that was being applied."""
        event = self._event
        self._changes.append(
            Change(
                session_id,
                entry.account_id,
                entry.platform,
                kind,
                self._now_ms,
                started_ms,
                event_ms=None if event is None else event.at_ms,
                ingested_ms=None if event is None else event.ingested_ms,
                labels=() if kind is ChangeKind.HEARTBEAT else entry.labels,
                **fields,
            )
        )


def _completed(session: _S, end: End | PendingEnd) -> _S:
    """The session with the End's account and labels, each by itself, where its Start had none."""
    if session.account_id is None and end.account_id is not None:
        session = replace(session, account_id=end.account_id)
    if None in session.labels:
        both = zip(session.labels, end.labels, strict=True)
        session = replace(session, labels=tuple(of_end if mine is None else mine for mine, of_end in both))
    return session


def _place_of(session_id: SessionId, entry: Live | Closed) -> _Place:
    return _Place(entry.started_ms, session_id)
