"""The wall clock in the unit of all instants here."""

import time


def wall_clock_ms() -> int:
    """The instant now, in UTC milliseconds."""
    return time.time_ns() // 1_000_000
