"""Start(s, t): the rules S1 to S7 of docs/session-rules.md."""

from dataclasses import replace
from typing import TypeVar

from sessionization.core.device_sessions import DeviceSessions, Place, completed, place_of
from sessionization.core.events import EndReason, SessionId, Start
from sessionization.core.session_state import Closed, Live, PendingEnd, Signs, was_silent_until

_S = TypeVar("_S", bound=Live | Closed)


def apply_start(device: DeviceSessions, start: Start) -> None:
    known = device.entries.get(start.session_id)
    if isinstance(known, Live | Closed):
        if has_implied_start(known):
            _start_at_last(device, start, known)
        else:  # S1
            device.tally.duplicate_start += 1
        return
    place = Place(start.at_ms, start.session_id)
    opened = Live(
        start.at_ms, device.now_ms, start.account_id, start.platform, start.labels, signs_at(start.at_ms, device)
    )
    if known is not None:
        _start_with_pending_end(device, place, opened, known)
    elif (next_start_ms := device.next_start_ms(place)) is not None:
        _start_before_a_later_session(device, place, opened, next_start_ms)
    else:
        start_newest(device, start.session_id, opened)
    _cut_session_before(device, place)


def start_newest(device: DeviceSessions, session_id: SessionId, opened: Live) -> None:
    """S4, S5: the session is live from now on, in place of the one that is."""
    if (live := device.live()) is not None:
        _supersede(device, *live, opened.started_ms)
    device.put(session_id, opened)
    device.emit_started(session_id, opened)


def signs_at(at_ms: int, device: DeviceSessions, *, is_implied: bool = False) -> Signs | None:
    """Return the signs of a session that opens now; None without `inactivity_timeout`."""
    return Signs(at_ms, device.now_ms, is_implied) if device.rules.has_activity else None


def has_implied_start(session: Live | Closed) -> bool:
    if isinstance(session, Closed):
        return session.is_implied
    return session.signs is not None and session.signs.is_implied


def _start_with_pending_end(device: DeviceSessions, place: Place, opened: Live, end: PendingEnd) -> None:
    """S2: the session is over already; it supersedes an earlier live session, and leaves a later one alone."""
    opened = completed(opened, end)
    live = device.live()
    if live is not None and place_of(*live) < place:
        _supersede(device, *live, place.started_ms)
    device.emit_started(place.session_id, opened)
    device.close(place.session_id, opened, end.at_ms, EndReason.REPORTED, end.foreground_s)


def _start_before_a_later_session(device: DeviceSessions, place: Place, opened: Live, next_start_ms: int) -> None:
    """S3: the session is old news, because the device has started another one since."""
    device.emit_started(place.session_id, opened)
    device.close(place.session_id, opened, next_start_ms, EndReason.SUPERSEDED)


def _supersede(device: DeviceSessions, session_id: SessionId, live: Live, at_ms: int) -> None:
    """S4: a newer session ends the live one, or shows that silence ended it before."""
    if live.signs is not None and was_silent_until(at_ms, live.signs, device.rules):
        device.close(session_id, live, live.signs.last_active_ms, EndReason.INACTIVE)
    else:
        device.close(session_id, live, at_ms, EndReason.SUPERSEDED)


def _cut_session_before(device: DeviceSessions, place: Place) -> None:
    """S6: cut the session directly before a new Start, so that it ends no later than that Start."""
    earlier = [
        (entry.started_ms, session_id)
        for session_id, entry in device.entries.items()
        if not isinstance(entry, PendingEnd) and (entry.started_ms, session_id) < place
    ]
    if not earlier:
        return
    _, session_id = max(earlier)
    previous = device.entries[session_id]
    if isinstance(previous, Closed) and previous.ended_ms > place.started_ms:
        device.put_ended(session_id, replace(previous, ended_ms=place.started_ms, revision=previous.revision + 1))


def _start_at_last(device: DeviceSessions, start: Start, session: Live | Closed) -> None:
    """S7: the Start of a session that an Activity began. The start moves to an earlier one, not over other sessions."""
    place, implied = Place(start.at_ms, start.session_id), place_of(start.session_id, session)
    moves = place < implied and not any(place < other < implied for other, _ in device.sessions())
    match _moved_to(start, session) if moves else completed(session, start):
        case Live(signs=Signs() as signs) as live:
            live = replace(live, signs=replace(signs, is_implied=False))
            device.put(start.session_id, live)
            device.emit_started(start.session_id, live)
        case Closed() as closed:
            closed = replace(closed, is_implied=False, revision=closed.revision + 1)
            device.emit_started(start.session_id, closed)
            device.put_ended(start.session_id, closed)
    if moves:
        _cut_session_before(device, place)


def _moved_to(start: Start, session: _S) -> _S:
    """The session as the Start says, with its own account and labels where the Start has none."""
    moved = replace(
        session,
        started_ms=start.at_ms,
        account_id=start.account_id,
        platform=start.platform,
        labels=start.labels,
    )
    return completed(moved, session)
