"""Accounts for every message from the tables alone, without the oracle: no message may be lost."""

from collections import Counter
from collections.abc import Collection

from sessionization.core.events import Activity, Event, Start
from tests.support.tables import Tables
from tests.support.wire import DEFAULT, Fields, read

_REASONS_OF_ENDS = {"reported", "orphaned"}
_POSITION = ("stream", "value", "ingested_ms", "file", "partition", "offset")
_ACTIVITIES = ("activities", "duplicate_activity", "late_activity")
_COUNTS = (
    "rows_in", "started", "duplicate_start", "duplicate_end", "quarantined", "skipped", *_ACTIVITIES, "implied_starts",
)  # fmt: skip

Session = tuple[str, int]


def unaccounted(
    tables: Tables, waiting: Collection[Session], events: Fields = DEFAULT, *, has_activity: bool = False
) -> list[str]:
    """Find messages without a trace, and sums that do not add up.

    Args:
        tables: all tables of a job that had read all of its input when it stopped.
        waiting: the pending Ends in its state.
        events: the content of its event map.
        has_activity: whether it has an inactivity timeout. An Activity leaves a trace in the counts alone.
    """
    changes = tables["session_changes"].of("change", "device_id", "session_id")
    started = {(device_id, session_id) for change, device_id, session_id in changes if change == "started"}
    ended = _ended(tables) | set(waiting)
    quarantined = set(tables["quarantine"].of(*_POSITION))
    found, skipped, events_of = [], 0, Counter[type[Event]]()
    for position in tables["raw_events"].of(*_POSITION):
        if position in quarantined:
            continue
        stream, value, ingested_ms, *_ = position
        message = read(stream, value, ingested_ms, events, has_activity=has_activity)
        if message is None:
            skipped += 1
            continue
        if not isinstance(message, tuple):
            found.append(f"{message}, and not in quarantine: {position}")
            continue
        device_id, event = message
        events_of[type(event)] += 1
        traces = started if isinstance(event, Start) else ended
        if not isinstance(event, Activity) and (device_id, event.session_id) not in traces:
            found.append(f"without a trace: {position}")
    sums = sums_of(tables)
    pairs = {
        "messages archived": (sums["archive.rows_in"], len(tables["raw_events"])),
        "messages refused": (sums["archive.quarantined"], len(tables["quarantine"])),
        "messages skipped": (sums["archive.skipped"], skipped),
        "events": (sums["sessionize.rows_in"], sums["archive.rows_in"] - sums["archive.quarantined"] - skipped),
        "events by kind": (sums["sessionize.rows_in"], events_of.total()),
        "Starts": (_starts(sums), events_of[Start]),
        "Activities": (_activities(sums), events_of[Activity]),
    }
    return found + [f"{name}: {count} and {expected}" for name, (count, expected) in pairs.items() if count != expected]


def unaccounted_ends(tables: Tables, waiting: Collection[Session]) -> int:
    """The number of valid Ends that ended no session, are no repeat and do not wait; if the state lost no entry."""
    sums = sums_of(tables)
    ends = sums["sessionize.rows_in"] - _starts(sums) - _activities(sums)
    return ends - sums["sessionize.duplicate_end"] - len(_ended(tables) | set(waiting))


def sums_of(tables: Tables) -> Counter[str]:
    """The sums of the counts in `stream_progress`, by `query.column`."""
    sums = Counter[str]()
    for row in tables["stream_progress"]:
        sums.update({f"{row['query']}.{name}": row.get(name) or 0 for name in _COUNTS})
    return sums


def _starts(sums: Counter[str]) -> int:
    """The Starts: each is a `started` or a repeat, and an implied start is none."""
    started = sums["sessionize.started"] - sums["sessionize.implied_starts"]
    return started + sums["sessionize.duplicate_start"]


def _activities(sums: Counter[str]) -> int:
    return sum(sums[f"sessionize.{name}"] for name in _ACTIVITIES)


def _ended(tables: Tables) -> set[Session]:
    """The sessions with a change that an End caused."""
    changes = tables["session_changes"].of("end_reason", "device_id", "session_id")
    return {(device_id, session_id) for reason, device_id, session_id in changes if reason in _REASONS_OF_ENDS}
