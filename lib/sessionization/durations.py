"""Durations as people write them: `500ms`, `30s`, `30m`, `12h`, `7d`, and from one to another: `5s-1m`."""

import re
from collections.abc import Callable
from typing import Annotated, NamedTuple

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
_UNITS_MS = {"d": DAY_MS, "h": HOUR_MS, "m": MINUTE_MS, "s": 1_000, "ms": 1}
_LONGEST_MS = 36_500 * _UNITS_MS["d"]
_PATTERN = re.compile(r"([0-9]{1,15})(ms|s|m|h|d)")


def parse_duration_ms(text: str) -> int:
    """Read a duration, and return it in milliseconds.

    Raises `ValueError` when `text` is not a whole number with one of the units ms, s, m, h and d. Raises it
    also for more than a hundred years, because neither a timestamp nor Spark accepts that.

    >>> parse_duration_ms("30s")
    30000
    """
    match = _PATTERN.fullmatch(text)
    if match is None:
        msg = f"{text!r} is not a duration: write a number and ms, s, m, h or d, such as 30s"
        raise ValueError(msg)
    duration_ms = int(match[1]) * _UNITS_MS[match[2]]
    if duration_ms > _LONGEST_MS:
        msg = f"{text!r} is too long a duration: write at most {format_duration(_LONGEST_MS)}"
        raise ValueError(msg)
    return duration_ms


def format_duration(duration_ms: int) -> str:
    """Write a duration as a whole number of the largest possible unit; `parse_duration_ms` reads it back.

    >>> format_duration(90_000), format_duration(1_800_000)
    ('90s', '30m')
    """
    if duration_ms == 0:
        return "0s"
    return next(f"{duration_ms // unit_ms}{unit}" for unit, unit_ms in _UNITS_MS.items() if duration_ms % unit_ms == 0)


class DurationRange(NamedTuple):
    """From the shortest to the longest duration, in milliseconds."""

    shortest_ms: int
    longest_ms: int


def parse_duration_range(text: str) -> DurationRange:
    """Read two durations from the shorter to the longer one, or one that is both.

    Raises `ValueError` when `text` is neither.

    >>> parse_duration_range("5s-1m")
    DurationRange(shortest_ms=5000, longest_ms=60000)
    """
    shortest, is_range, longest = text.partition("-")
    found = DurationRange(parse_duration_ms(shortest), parse_duration_ms(longest if is_range else shortest))
    if not 0 < found.shortest_ms <= found.longest_ms:
        msg = f"{text!r} is not a range of durations: write the shorter one first, such as 5s-1m, or one above 0s"
        raise ValueError(msg)
    return found


def format_duration_range(durations: DurationRange) -> str:
    """Write a range as `parse_duration_range` reads it.

    >>> format_duration_range(DurationRange(5_000, 60_000)), format_duration_range(DurationRange(5_000, 5_000))
    ('5s-1m', '5s')
    """
    return "-".join(dict.fromkeys(map(format_duration, durations)))


def _text_parsed_by(parse: Callable[[str], object]) -> BeforeValidator:
    """Parse text; return another value unchanged, so that settings can be built from another object's fields."""
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


PaceRange = Annotated[
    DurationRange,
    _text_parsed_by(parse_duration_range),
    PlainSerializer(format_duration_range, return_type=str),
    WithJsonSchema({"type": "string", "format": "duration-range", "examples": ["5s-1m", "30s"]}),
]
"""A pydantic field of a `DurationRange` that is read and written as text such as `5s-1m`."""

Duration = Annotated[
    int,
    _text_parsed_by(parse_duration_ms),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "format": "duration", "examples": ["500ms", "30s", "30m", "12h", "7d"]}),
]
"""A pydantic field in milliseconds that is read and written as text such as `30s`. Its bounds are milliseconds."""
PositiveDuration = Annotated[Duration, Field(ge=1)]
