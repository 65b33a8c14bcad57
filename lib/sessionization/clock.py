"""The wall clock in UTC milliseconds, and the conversion of such an instant to a date and time."""

import time
from datetime import UTC, date, datetime


def wall_clock_ms() -> int:
    """Return the current instant in UTC milliseconds."""
    return time.time_ns() // 1_000_000


def utc(instant_ms: int) -> datetime:
    """Return the instant `instant_ms`, in milliseconds after the epoch, as a date and time in UTC."""
    return datetime.fromtimestamp(instant_ms / 1000, UTC)


def day_start_ms(day: date) -> int:
    """The first instant of a day (UTC)."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1_000)
