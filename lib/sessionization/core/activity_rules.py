"""Activity(s, t): the rules A1 to A5 of docs/session-rules.md. They apply only with `inactivity_timeout`."""

from dataclasses import replace

from sessionization.core.device_sessions import DeviceSessions, Place, place_of
from sessionization.core.events import Activity, ChangeKind, EndReason
from sessionization.core.session_state import Closed, Live, Rules, Signs, was_silent_until
from sessionization.core.start_rules import signs_at, start_newest


def apply_activity(device: DeviceSessions, activity: Activity) -> None:
    at_ms, session_id = activity.at_ms, activity.session_id
    match device.entries.get(session_id):
        case Live(signs=Signs() as signs) as live if at_ms > signs.last_active_ms:  # A1
            heard = replace(signs, last_active_ms=at_ms, heard_ms=device.now_ms)
            device.put(session_id, replace(live, signs=heard))
            device.tally.activities += 1
        case Closed() as closed if _goes_on(device, closed, activity):
            _resume(device, closed, activity)
            device.tally.activities += 1
        case None if _is_missing_a_start(device, activity):
            _start_implied(device, activity)
            device.tally.activities += 1
            device.tally.implied_starts += 1
        case None:  # A5
            device.tally.late_activity += 1
        case _:  # A3
            device.tally.duplicate_activity += 1


def _goes_on(device: DeviceSessions, closed: Closed, activity: Activity) -> bool:
    """Whether the session was closed too early, and no later one has begun."""
    is_active_since = closed.reason is EndReason.INACTIVE and activity.at_ms > closed.ended_ms
    return is_active_since and device.next_start_ms(place_of(activity.session_id, closed)) is None


def _resume(device: DeviceSessions, closed: Closed, activity: Activity) -> None:
    """A2: a session that was closed as inactive is live again."""
    assert closed.opened_ms is not None
    revision = closed.revision + 1
    signs = Signs(activity.at_ms, device.now_ms, closed.is_implied, device.now_ms, revision + 1)
    live = Live(closed.started_ms, closed.opened_ms, closed.account_id, closed.platform, closed.labels, signs)
    device.put(activity.session_id, live)
    device.emit(ChangeKind.RESUMED, activity.session_id, live, live.started_ms, revision=revision)


def _is_missing_a_start(device: DeviceSessions, activity: Activity) -> bool:
    """Whether an Activity of an unknown session is young enough, and nothing of the device is alive at or after it."""
    silence_ms = device.rules.inactivity_timeout_ms
    if silence_ms is None or activity.ingested_ms - activity.at_ms > silence_ms:
        return False
    place = Place(activity.at_ms, activity.session_id)
    return all(
        other < place and _is_over(session, place.started_ms, device.rules) for other, session in device.sessions()
    )


def _is_over(session: Live | Closed, at_ms: int, rules: Rules) -> bool:
    if isinstance(session, Closed):
        return session.ended_ms <= at_ms
    return session.signs is not None and was_silent_until(at_ms, session.signs, rules)


def _start_implied(device: DeviceSessions, activity: Activity) -> None:
    """A4: the session's Start is missing; it starts with this Activity."""
    opened = Live(
        activity.at_ms,
        device.now_ms,
        activity.account_id,
        activity.platform,
        activity.labels,
        signs_at(activity.at_ms, device, is_implied=True),
    )
    start_newest(device, activity.session_id, opened)
