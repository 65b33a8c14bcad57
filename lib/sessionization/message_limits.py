"""The limits on a message, for each reader of messages."""

from dataclasses import dataclass

MAX_VALUE_BYTES = 64 * 1024
MAX_ID_CODE_POINTS = 256
SKIPPED = "skipped"
"""In place of a reason: an event that the map skips, which is no event to us and does not go to quarantine."""


@dataclass(frozen=True, slots=True)
class EventTimeLimits:
    """The largest distances between an event's time and its ingest time, in milliseconds."""

    max_clock_skew_ms: int
    max_event_age_ms: int
