"""A working copy of one device's sessions, and what becomes of it: what the rules share."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from sessionization.core.events import Change, ChangeKind, End, EndReason, Event, SessionId, Start
from sessionization.core.session_state import Closed, Live, PendingEnd, Rules, Sessions, SessionState


@dataclass(slots=True)
class Tally:
    """Counts of all events, of those that cause no change, and of the evicted entries.

    `activities` were applied, and `implied_starts` are those of them that opened a session.
    """

    events: int = 0
    duplicate_start: int = 0
    duplicate_end: int = 0
    evicted: int = 0
    activities: int = 0
    duplicate_activity: int = 0
    late_activity: int = 0
    implied_starts: int = 0


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


class Place(NamedTuple):
    """A session's place in the order of a device's sessions."""

    started_ms: int
    session_id: SessionId


_S = TypeVar("_S", bound=Live | Closed)


def completed(session: _S, source: Start | End | SessionState) -> _S:
    """The session with account and labels of `source`, each by itself, where it has none."""
    if session.account_id is None and source.account_id is not None:
        session = replace(session, account_id=source.account_id)
    if None in session.labels:
        both = zip(session.labels, source.labels, strict=True)
        session = replace(session, labels=tuple(other if mine is None else mine for mine, other in both))
    return session


def place_of(session_id: SessionId, entry: Live | Closed) -> Place:
    return Place(entry.started_ms, session_id)


class DeviceSessions:
    """A working copy of one device's sessions while events or a timer are applied to it.

    `entries` are the sessions as they are now, `event` the event that is being applied, None while a timer fires.
    """

    def __init__(self, sessions: Sessions, now_ms: int, rules: Rules) -> None:
        self.now_ms = now_ms
        self.rules = rules
        self.entries = dict(sessions)
        self.tally = Tally()
        self.event: Event | None = None
        self._before = sessions
        self._updated: dict[SessionId, SessionState | None] = {}
        self._changes: list[Change] = []

    def outcome(self) -> Outcome:
        return Outcome(self.entries, self._changes, self._updated, self.tally)

    def live(self) -> tuple[SessionId, Live] | None:
        """Return the id and the entry of the device's live session, None without one."""
        for session_id, entry in self.entries.items():
            if isinstance(entry, Live):
                return session_id, entry
        return None

    def sessions(self) -> Iterator[tuple[Place, Live | Closed]]:
        """Yield the live and the closed sessions with their places, in no order."""
        for session_id, entry in self.entries.items():
            if not isinstance(entry, PendingEnd):
                yield Place(entry.started_ms, session_id), entry

    def next_start_ms(self, place: Place) -> int | None:
        """Return `started_at` of the earliest remembered session that is later than `place`."""
        return min(
            (
                entry.started_ms
                for session_id, entry in self.entries.items()
                if not isinstance(entry, PendingEnd) and (entry.started_ms, session_id) > place
            ),
            default=None,
        )

    def clamp(self, place: Place, at_ms: int) -> int:
        """Return the end nearest to `at_ms` that is not before the session's start and not after the next one's."""
        next_start_ms = self.next_start_ms(place)
        return max(place.started_ms, at_ms if next_start_ms is None else min(at_ms, next_start_ms))

    def next_closing_order(self) -> int:
        return 1 + max(
            (entry.closing_order for entry in self.entries.values() if not isinstance(entry, Live)), default=-1
        )

    def put(self, session_id: SessionId, entry: SessionState) -> None:
        self.entries[session_id] = self._updated[session_id] = entry

    def put_ended(self, session_id: SessionId, closed: Closed) -> None:
        self.put(session_id, closed)
        self.emit(
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

    def close(
        self, session_id: SessionId, live: Live, at_ms: int, reason: EndReason, foreground_s: int | None = None
    ) -> None:
        """End a live session, at `at_ms` clamped."""
        signs = live.signs
        closed = Closed(
            started_ms=live.started_ms,
            ended_ms=self.clamp(place_of(session_id, live), at_ms),
            reason=reason,
            revision=0 if signs is None else signs.revision,
            foreground_s=foreground_s,
            account_id=live.account_id,
            platform=live.platform,
            closed_ms=self.now_ms,
            closing_order=self.next_closing_order(),
            labels=live.labels,
            opened_ms=None if signs is None else live.opened_ms,
            is_implied=signs is not None and signs.is_implied,
        )
        self.put_ended(session_id, closed)

    def forget(self, session_id: SessionId, entry: Closed | PendingEnd) -> None:
        """Remove an entry; emit a pending End as an orphan, so that it is not lost."""
        del self.entries[session_id]
        if session_id in self._before:
            self._updated[session_id] = None
        else:
            del self._updated[session_id]
        if isinstance(entry, PendingEnd):
            self.emit(
                ChangeKind.ENDED,
                session_id,
                entry,
                None,
                end_reason=EndReason.ORPHANED,
                ended_ms=entry.at_ms,
                foreground_s=entry.foreground_s,
            )

    def emit_started(self, session_id: SessionId, session: Live | Closed) -> None:
        self.emit(ChangeKind.STARTED, session_id, session, session.started_ms, duration_ms=0)

    def emit(
        self, kind: ChangeKind, session_id: SessionId, entry: SessionState, started_ms: int | None, **fields: Any
    ) -> None:
        """Emit a change with what every change says: whose it is, when, and the event that is being applied."""
        event = self.event
        self._changes.append(
            Change(
                session_id,
                entry.account_id,
                entry.platform,
                kind,
                self.now_ms,
                started_ms,
                event_ms=None if event is None else event.at_ms,
                ingested_ms=None if event is None else event.ingested_ms,
                labels=() if kind is ChangeKind.HEARTBEAT else entry.labels,
                **fields,
            )
        )
