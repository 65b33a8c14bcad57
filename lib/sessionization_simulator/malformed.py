"""Malformed texts for each quarantine reason that concerns the text, and unusual texts that are valid."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from sessionization_simulator.dirt import DirtKind

Fields = Mapping[str, Any]

_DEVICE_KEY: Final = "device"
_ABSENT: Final = object()

_OVER_256_CODE_POINTS = "x" * 257
_OVER_64_KIB = "x" * (64 * 1024)
_BEYOND_64_BITS = 2**63
_TOO_DEEP_NESTING = 5_000
_to_json = json.JSONEncoder(separators=(",", ":")).encode
_MINUTES_EAST = (-720, -480, -210, 0, 60, 120, 345, 540, 840)


def _each(name: str, *values: object) -> Sequence[Fields]:
    """One way for each value of a field."""
    return tuple({name: value} for value in values)


_REPLACEMENTS: Mapping[DirtKind, Sequence[Fields]] = {
    DirtKind.ODD_OPTIONAL: (
        *_each("psnAccountId", None, "", 42, ["a"], {"id": "a"}),
        *_each("totalFgTime", None, "12", 1.5, True, _BEYOND_64_BITS),
        {"region": "eu", "tags": ["new", {"since": 1}]},
    ),
    DirtKind.OVERSIZED: (
        {_DEVICE_KEY: _OVER_256_CODE_POINTS},
        *_each("psnAccountId", _OVER_256_CODE_POINTS, "\U0001f3ae" * 257),
        {"note": _OVER_64_KIB},
    ),
    DirtKind.MISSING_DEVICE_ID: _each(_DEVICE_KEY, _ABSENT, None, 42, ["a"], "", " \t", "\ud800"),
    DirtKind.MISSING_SESSION_ID: _each("appSessionId", _ABSENT, None, "42", 42.0, 4.2e20, True, _BEYOND_64_BITS),
    DirtKind.MISSING_EVENT_TIME: _each(
        "timestamp",
        _ABSENT,
        None,
        1_767_225_600_000,
        "",
        "yesterday",
        "2026-01-01T20:15:00.000",
        "2026-01-01 20:15:00.000Z",
        "2026-02-30T20:15:00.000Z",
        "2026-01-01T24:15:00.000Z",
        "2026-01-01T20:15:00.000+99:00",
    ),
    DirtKind.UNKNOWN_EVENT: _each(
        "eventId", _ABSENT, None, 1, "", "ApplicationSessionPause", "applicationsessionstart"
    ),
    DirtKind.NEGATIVE_FOREGROUND: _each("totalFgTime", -1, -3_600),
}

_MALFORMED: Sequence[Callable[[bytes], bytes]] = (
    lambda line: line[: len(line) // 2],
    lambda line: line[:-1] + b",}",
    lambda line: line[:-1],
    lambda line: line + line,
    lambda line: b"[" + line + b"]",
    lambda line: line.replace(b'"', b"'"),
    lambda line: line.replace(b'"appSessionId":', b'"appSessionId":0'),
    lambda line: line[:-1] + b',"score":NaN}',
    lambda line: line.replace(b"Session", b"Sess\xffion", 1),
    lambda line: line.replace(b"Session", b"Sess\x01ion", 1),
    lambda line: line[:-1] + b',"x":' + b"[" * _TOO_DEEP_NESTING + b"]" * _TOO_DEEP_NESTING + b"}",
    lambda _: b"null",
    lambda _: b"200 OK",
)


def to_text(fields: Fields, device_field: str, kind: DirtKind | None, turn: int) -> bytes:
    """Write a message in one of the ways of `kind`; `turn`, any number from 0, selects the way.

    Without a kind, or with one that does not concern the text, it is valid.

    >>> to_text({"appSessionId": 7}, "hostPcId", DirtKind.MISSING_SESSION_ID, 1)
    b'{"appSessionId":null}'
    """
    if kind is None:
        return _encoded(fields)
    if kind is DirtKind.MALFORMED_JSON:
        return _MALFORMED[turn % len(_MALFORMED)](_encoded(fields))
    if kind is DirtKind.LOCAL_TIME:
        zone = timezone(timedelta(minutes=_MINUTES_EAST[turn % len(_MINUTES_EAST)]))
        at = datetime.fromisoformat(fields["timestamp"]).astimezone(zone)
        return _encoded({**fields, "timestamp": at.isoformat(timespec="milliseconds")})
    ways = _REPLACEMENTS.get(kind, ({},))
    replaced = {**fields}
    for name, value in ways[turn % len(ways)].items():
        replaced[device_field if name == _DEVICE_KEY else name] = value
    return _encoded({name: value for name, value in replaced.items() if value is not _ABSENT})


def _encoded(fields: Fields) -> bytes:
    return _to_json(fields).encode()
