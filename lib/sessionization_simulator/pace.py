"""The pace of simulated time: `real-time`, `max`, or a factor such as `60x`."""

import math
import re
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

REAL_TIME = 1.0
MAX = math.inf

_FACTOR = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)x")


def _parse(value: object) -> object:
    if not isinstance(value, str):
        return value
    if value in _NAMES:
        return _NAMES[value]
    match = _FACTOR.fullmatch(value)
    if match is None or not float(match[1]):
        msg = f"{value!r} is not a pace: write real-time, max, or a factor such as 60x"
        raise ValueError(msg)
    return float(match[1])


def format_pace(pace: float) -> str:
    """Format a pace as `--pace` takes it."""
    return next((name for name, factor in _NAMES.items() if factor == pace), f"{pace:g}x")


_NAMES = {"real-time": REAL_TIME, "max": MAX}

Pace = Annotated[
    float,
    BeforeValidator(_parse),
    PlainSerializer(format_pace, return_type=str),
    WithJsonSchema({"type": "string", "metavar": "real-time|max|60x"}),
]
"""A pydantic field: simulated seconds per second of the wall clock; infinity means as fast as possible."""
