"""Malformed lines for each quarantine reason that concerns the text, and unusual lines that are valid."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from sessionization_simulator.dirt_kinds import DirtKind

Fields = Mapping[str, Any]

_DEVICE_KEY: Final = "device"
_ABSENT: Final = object()
_STREAM_FIELDS = ("hostPcId", "openPsid")

_OVER_256_CODE_POINTS = "x" * 257
_OVER_64_KIB = "x" * (64 * 1024)
_BEYOND_64_BITS = 2**63
_TOO_DEEP_NESTING = 5_000
_MINUTES_EAST = (-720, -480, -210, 0, 60, 120, 345, 540, 840)

_REPLACEMENTS: Mapping[DirtKind, Sequence[Fields]] = {
    DirtKind.ODD_OPTIONAL: (
        {"psnAccountId": None},
        {"psnAccountId": ""},
        {"psnAccountId": 42},
        {"psnAccountId": ["a"]},
        {"psnAccountId": {"id": "a"}},
        {"totalFgTime": None},
        {"totalFgTime": "12"},
        {"totalFgTime": 1.5},
        {"totalFgTime": True},
        {"totalFgTime": _BEYOND_64_BITS},
        {"region": "eu", "tags": ["new", {"since": 1}]},
    ),
    DirtKind.OVERSIZED: (
        {_DEVICE_KEY: _OVER_256_CODE_POINTS},
        {"psnAccountId": _OVER_256_CODE_POINTS},
        {"psnAccountId": "\U0001f3ae" * 257},
        {"note": _OVER_64_KIB},
    ),
    DirtKind.MISSING_DEVICE_ID: (
        {_DEVICE_KEY: _ABSENT},
        {_DEVICE_KEY: None},
        {_DEVICE_KEY: 42},
        {_DEVICE_KEY: ["a"]},
        {_DEVICE_KEY: ""},
        {_DEVICE_KEY: " \t"},
        {_DEVICE_KEY: "\ud800"},
    ),
    DirtKind.MISSING_SESSION_ID: (
        {"appSessionId": _ABSENT},
        {"appSessionId": None},
        {"appSessionId": "42"},
        {"appSessionId": 42.0},
        {"appSessionId": 4.2e20},
        {"appSessionId": True},
        {"appSessionId": _BEYOND_64_BITS},
    ),
    DirtKind.MISSING_EVENT_TIME: (
        {"timestamp": _ABSENT},
        {"timestamp": None},
        {"timestamp": 1_767_225_600_000},
        {"timestamp": ""},
        {"timestamp": "yesterday"},
        {"timestamp": "2026-01-01T20:15:00.000"},
        {"timestamp": "2026-01-01 20:15:00.000Z"},
        {"timestamp": "2026-02-30T20:15:00.000Z"},
        {"timestamp": "2026-01-01T24:15:00.000Z"},
        {"timestamp": "2026-01-01T20:15:00.000+99:00"},
    ),
    DirtKind.UNKNOWN_EVENT: (
        {"eventId": _ABSENT},
        {"eventId": None},
        {"eventId": 1},
        {"eventId": ""},
        {"eventId": "ApplicationSessionPause"},
        {"eventId": "applicationsessionstart"},
    ),
    DirtKind.NEGATIVE_FOREGROUND: ({"totalFgTime": -1}, {"totalFgTime": -3_600}),
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


def malform(line: bytes, kind: DirtKind, turn: int) -> bytes:
    """Rewrite a valid line in one of the ways of `kind`; `turn`, any number from 0, selects the way.

    A kind that does not concern the text of a line leaves it unchanged.

    >>> malform(b'{"appSessionId":7}', DirtKind.MISSING_SESSION_ID, 1)
    b'{"appSessionId":null}'
    """
    if kind is DirtKind.MALFORMED_JSON:
        return _MALFORMED[turn % len(_MALFORMED)](line)
    if kind is DirtKind.LOCAL_TIME:
        return _in_local_time(line, _MINUTES_EAST[turn % len(_MINUTES_EAST)])
    if kind in _REPLACEMENTS:
        ways = _REPLACEMENTS[kind]
        return _replace(line, ways[turn % len(ways)])
    return line


def _replace(line: bytes, replacements: Fields) -> bytes:
    fields = json.loads(line)
    device_field = next((name for name in _STREAM_FIELDS if name in fields), _DEVICE_KEY)
    for name, value in replacements.items():
        fields[device_field if name == _DEVICE_KEY else name] = value
    return _line({name: value for name, value in fields.items() if value is not _ABSENT})


def _in_local_time(line: bytes, minutes_east: int) -> bytes:
    fields = json.loads(line)
    zone = timezone(timedelta(minutes=minutes_east))
    fields["timestamp"] = (
        datetime.fromisoformat(fields["timestamp"]).astimezone(zone).isoformat(timespec="milliseconds")
    )
    return _line(fields)


def _line(fields: Fields) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()
