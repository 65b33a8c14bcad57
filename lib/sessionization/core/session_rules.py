"""The session rules of one device: (sessions, events or a timer, now) -> (sessions, changes).

A device's sessions are a mapping from session id to `SessionState`. Nothing here reads a clock, and no argument is
ever modified. The comments of the four files of rules name the rules of docs/session-rules.md: `start_rules`,
`end_rules`, `activity_rules`, and this one, with timers and the bound on a device's entries.
"""

from collections.abc import Iterable
from dataclasses import replace

from sessionization.core.activity_rules import apply_activity
from sessionization.core.device_sessions import DeviceSessions, Outcome
from sessionization.core.end_rules import apply_end
from sessionization.core.events import Activity, ChangeKind, End, EndReason, Event, SessionId, Start, sort_events
from sessionization.core.heartbeat_grid import Firing
from sessionization.core.session_state import (
    Expiry,
    Live,
    PendingEnd,
    Rules,
    Sessions,
    expiry_at,
    remembered_since_ms,
    signs_when_loaded,
)
from sessionization.core.start_rules import apply_start


def on_events(sessions: Sessions, events: Iterable[Event], now_ms: int, rules: Rules) -> Outcome:
    """Sort one device's events of one micro-batch, and apply them.

    >>> from sessionization.core.events import Platform, Start
    >>> outcome = on_events({}, [Start(7, 1_000, Platform.PC, 1_500)], now_ms=2_000, rules=Rules())
    >>> outcome.sessions[7]
    Live(started_ms=1000, opened_ms=2000, account_id=None, platform=<Platform.PC: 'pc'>, labels=(), signs=None)
    """
    device = _load(sessions, now_ms, rules)
    for event in sort_events(events):
        _apply(device, event)
    return device.outcome()


def on_timer(sessions: Sessions, firing: Firing, rules: Rules) -> Outcome:
    """Apply a timer that fires, after the events of the same micro-batch.

    Emit at most one row per entry, hence at most one heartbeat per session, even if the timer fires late.
    """
    device = _load(sessions, firing.now_ms, rules)
    _fire(device, firing, expiry_at(firing.now_ms, rules))
    return device.outcome()


def _load(sessions: Sessions, now_ms: int, rules: Rules) -> DeviceSessions:
    device = DeviceSessions(sessions, now_ms, rules)
    if rules.inactivity_timeout_ms is not None and (live := device.live()) is not None:
        session_id, entry = live
        if entry.signs is None:
            device.put(session_id, replace(entry, signs=signs_when_loaded(entry, now_ms)))
    return device


def _apply(device: DeviceSessions, event: Event) -> None:
    if isinstance(event, Activity) and device.rules.inactivity_timeout_ms is None:
        return  # skipped
    device.event = event
    device.tally.events += 1
    match event:
        case Start():
            apply_start(device, event)
        case End():
            apply_end(device, event)
        case Activity():
            apply_activity(device, event)
    while len(device.entries) > device.rules.max_sessions_per_device:
        _evict(device)


def _fire(device: DeviceSessions, firing: Firing, expiry: Expiry) -> None:
    for session_id, entry in sorted(device.entries.items()):
        if not isinstance(entry, Live):
            if remembered_since_ms(entry) <= expiry.remembered_by_ms:  # T3, T4
                device.forget(session_id, entry)
        else:
            _fire_for_live(device, session_id, entry, firing, expiry)


def _fire_for_live(device: DeviceSessions, session_id: SessionId, live: Live, firing: Firing, expiry: Expiry) -> None:
    signs = live.signs
    if expiry.heard_by_ms is None or signs is None:  # T1
        is_over, reason = live.opened_ms <= expiry.opened_by_ms, EndReason.TIMED_OUT
        ended_ms = live.started_ms + device.rules.session_timeout_ms
    else:  # T0
        is_over, reason = signs.heard_ms <= expiry.heard_by_ms, EndReason.INACTIVE
        ended_ms = signs.last_active_ms
    if is_over:
        device.close(session_id, live, ended_ms, reason)
    else:
        _beat(device, session_id, live, firing)


def _beat(device: DeviceSessions, session_id: SessionId, live: Live, firing: Firing) -> None:
    """T2: emit the newest due heartbeat of a live session, if one is due and was not emitted yet."""
    resumed_ms = None if live.signs is None else live.signs.resumed_ms
    signs = live.signs if device.rules.has_activity else None
    beats = firing.beats([live.opened_ms])
    beats_here = beats if resumed_ms is None else firing.beats([max(live.opened_ms, resumed_ms)])
    if beats_here[0]:
        device.emit(
            ChangeKind.HEARTBEAT,
            session_id,
            live,
            live.started_ms,
            duration_ms=firing.now_ms - live.opened_ms,
            beat=beats[0],
            missed_beats=firing.missed_beats(beats_here)[0],
            due_ms=firing.due_ms,
            last_active_ms=None if signs is None else signs.last_active_ms,
        )


def _evict(device: DeviceSessions) -> None:
    """Forget the session that was closed first; without closed sessions, the pending End that was seen first."""
    candidates = [
        (isinstance(entry, PendingEnd), entry.closing_order, session_id, entry)
        for session_id, entry in device.entries.items()
        if not isinstance(entry, Live)
    ]
    *_, session_id, entry = min(candidates)
    device.forget(session_id, entry)
    device.tally.evicted += 1
