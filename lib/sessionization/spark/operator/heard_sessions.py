"""Activities of live sessions, applied to the stored entries of a device group: most messages of a job are these."""

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

from sessionization.core.device_sessions import Tally
from sessionization.core.events import Activity, Event, SessionId
from sessionization.core.session_state import Rules
from sessionization.spark.operator.stored_entries import (
    StateValue,
    StoredDevices,
    StoredEntry,
    is_live_with_signs,
    last_active_ms,
    with_signs,
)


@dataclass
class HeardSessions:
    """The entries to write, by device and session, and the counts of the Activities of all these devices."""

    updates: dict[str, Mapping[SessionId, StateValue | None]] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)


def take_activities(
    events: MutableMapping[str, list[Event]], stored: StoredDevices, now_ms: int, rules: Rules
) -> HeardSessions:
    """Remove from `events` the devices of which only a live session was heard, and apply their events: A1 and A3.

    Decoding entries and making changes would take twice as long as the rest. Where any other rule may apply to a
    device, its events stay, all of them.

    Args:
        events: the events of one micro-batch by device.
        stored: the entries of these devices.
        now_ms: the micro-batch's clock.
        rules: the rules in force.
    """
    heard = HeardSessions()
    for device_id, device_events in list(events.items()):
        entries = stored.get(device_id, ())
        if len(entries) > rules.max_sessions_per_device:
            continue
        entry = _only_live_session(device_events, entries)
        if entry is None:
            continue
        del events[device_id]
        newer = {event.at_ms for event in device_events if event.at_ms > last_active_ms(entry)}
        heard.tally.events += len(device_events)
        heard.tally.activities += len(newer)
        heard.tally.duplicate_activity += len(device_events) - len(newer)
        if newer:
            heard.updates[device_id] = {entry[0]: with_signs(entry, max(newer), now_ms)}
    return heard


def _only_live_session(events: Sequence[Event], entries: Sequence[StoredEntry]) -> StoredEntry | None:
    """The entry of the live session of which all events are Activities; None where it is not so."""
    session_id = events[0].session_id
    for event in events:
        if not isinstance(event, Activity) or event.session_id != session_id:
            return None
    for entry in entries:
        if entry[0] == session_id:
            return entry if is_live_with_signs(entry) else None
    return None
