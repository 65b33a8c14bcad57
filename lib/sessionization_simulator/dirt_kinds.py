"""The names of the kinds of dirt: the ways in which an event can go wrong."""

from enum import StrEnum


class DirtKind(StrEnum):
    """One way for an event to go wrong; the names of the last nine are quarantine reasons."""

    REPEAT = "repeat"
    """The message arrives once more, later."""
    LATE_END = "late_end"
    """The End arrives minutes after it happened."""
    END_BEFORE_START = "end_before_start"
    """The Start arrives after its End."""
    OVERLAP = "overlap"
    """The device opens another session before this one is over."""
    LOST_START = "lost_start"
    """The Start never arrives."""
    LOST_END = "lost_end"
    """The End never arrives."""
    SKEWED_CLOCK = "skewed_clock"
    """The event time is off by up to five minutes, which the rules tolerate."""
    LOCAL_TIME = "local_time"
    """The event time has another offset than Z; the instant is the same."""
    ODD_OPTIONAL = "odd_optional"
    """An optional field is null, empty or of a wrong type."""
    OVERSIZED = "oversized"
    MALFORMED_JSON = "malformed_json"
    MISSING_DEVICE_ID = "missing_device_id"
    MISSING_SESSION_ID = "missing_session_id"
    MISSING_EVENT_TIME = "missing_event_time"
    UNKNOWN_EVENT = "unknown_event"
    EVENT_TIME_IN_FUTURE = "event_time_in_future"
    EVENT_TIME_TOO_OLD = "event_time_too_old"
    NEGATIVE_FOREGROUND = "negative_foreground"

    @property
    def code(self) -> int:
        """A small number for arrays; 0 (`CLEAN`) marks an event without dirt."""
        return CLEAN + 1 + list(DirtKind).index(self)

    @property
    def applies_to_starts(self) -> bool:
        return self not in _END_ONLY

    @property
    def applies_to_ends(self) -> bool:
        return self not in _START_ONLY


CLEAN = 0

_START_ONLY = frozenset({DirtKind.END_BEFORE_START, DirtKind.OVERLAP, DirtKind.LOST_START})
_END_ONLY = frozenset({DirtKind.LATE_END, DirtKind.LOST_END, DirtKind.NEGATIVE_FOREGROUND})
