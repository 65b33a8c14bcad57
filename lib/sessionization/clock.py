"""Instants: the wall clock, in the unit of all of them here, and as a date and time."""

import time
from datetime import UTC, datetime


def wall_clock_ms() -> int:
    """The instant now, in UTC milliseconds."""
    return time.time_ns() // 1_000_000


def utc(instant_ms: int) -> datetime:
    """The instant that many milliseconds after the epoch."""
    return datetime.fromtimestamp(instant_ms / 1000, UTC)
