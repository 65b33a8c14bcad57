"""Malformed texts for each quarantine reason that concerns the text, and unusual texts that are valid."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from itertools import cycle
from typing import Any

from sessionization.event_map.model import EventMap
from sessionization.event_map.reading import is_default
from sessionization_simulator.dirt import PING_ONLY, DirtKind
from sessionization_simulator.message_form import (
    ABSENT,
    ACCOUNT,
    EVENT,
    FOREGROUND,
    PLATFORM,
    TIME,
    Form,
    Values,
    device_part,
    session_part,
)

_OVER_256_CODE_POINTS = "x" * 257
_OVER_64_KIB = "x" * (64 * 1024)
_BEYOND_64_BITS = 2**63
_TOO_DEEP_NESTING = 5_000
_MINUTES_EAST = (-720, -480, -210, 0, 60, 120, 345, 540, 840)
_NO_TEXT = (ABSENT, None, 1.5, True, ["a"], {"id": "a"}, "", " \t", "\ud800", _BEYOND_64_BITS)
"""Values that are no id, in maps that take texts and integers as ids."""
_ODD_LABELS = (None, "", "\ud800", 42, -0.5, True, _BEYOND_64_BITS, ["a"], {"id": "a"}, "\U0001f3ae" * 257)
_NO_ISO8601 = (
    ABSENT,
    None,
    1_767_225_600_000,
    "",
    "yesterday",
    "2026-01-01T20:15:00.000",
    "2026-01-01 20:15:00.000Z",
    "2026-02-30T20:15:00.000Z",
    "2026-01-01T24:15:00.000Z",
    "2026-01-01T20:15:00.000+99:00",
)
_NO_TIME: Mapping[str, Sequence[object]] = {
    "iso8601": _NO_ISO8601,
    "iso8601_basic_offset": (*_NO_ISO8601, "2026-01-01T20:15:00.000+0060"),
    "sql_timestamp": (
        ABSENT,
        None,
        1_767_225_600_000,
        "",
        "yesterday",
        "2026-01-01",
        "2026-01-01 20:15",
        "2026-02-30 20:15:00.000",
        "2026-01-01 24:15:00.000",
        "2026-01-01 20:15:00.000 +99:00",
    ),
    "epoch_ms": (
        ABSENT,
        None,
        "1767225600000",
        1_767_225_600_000.5,
        1e22,
        True,
        _BEYOND_64_BITS,
        "2026-01-01T20:15:00Z",
    ),
    "epoch_s": (ABSENT, None, "1767225600", 1e22, True, [1], "2026-01-01T20:15:00Z"),
}


def _each(name: str, *values: object) -> Sequence[Values]:
    """One way for each value of a field."""
    return tuple({name: value} for value in values)


_ODD_OPTIONAL: Sequence[Values] = (
    *_each(ACCOUNT, None, "", 42, ["a"], {"id": "a"}),
    *_each(FOREGROUND, None, "12", 1.5, True, _BEYOND_64_BITS),
    {"region": "eu", "tags": ["new", {"since": 1}]},
)
"""Beside each, a title and kept values are odd: the other fields are the same in maps that have these."""


def possible_dirt(events: EventMap, *, has_pings: bool = False) -> tuple[DirtKind, ...]:
    """The kinds of dirt that messages of an event map can have, with pings or without."""
    never = set() if has_pings else set(PING_ONLY)
    if not events.may_skip(has_activity=has_pings):
        never.add(DirtKind.OTHER_EVENT)
    if not any(PLATFORM in Form.of(events, stream).paths for stream in events.stream_names):
        never.add(DirtKind.UNKNOWN_PLATFORM)
    if events.foreground_s is None:
        never.add(DirtKind.NEGATIVE_FOREGROUND)
    return tuple(kind for kind in DirtKind if kind not in never)


def replacements(form: Form) -> Mapping[DirtKind, Sequence[Values]]:
    """By kind each way to replace values of a message."""
    events = form.events
    skips_others, unknown_kinds = events.other_events == "skip", _unknown_kinds(events)
    devices = (ABSENT, None, 42, ["a"], "", " \t", "\ud800") if is_default(events) else _NO_TEXT
    sessions = _NO_TEXT if events.has_text_ids else (ABSENT, None, "42", 42.0, 4.2e20, True, _BEYOND_64_BITS)
    return {
        DirtKind.ODD_OPTIONAL: tuple(
            {**dict.fromkeys(form.label_places, label), **way}
            for way, label in zip(_ODD_OPTIONAL, cycle(_ODD_LABELS), strict=False)
        ),
        DirtKind.OTHER_EVENT: _each(EVENT, *(unknown_kinds if skips_others else events.kinds.activity)),
        DirtKind.OVERSIZED: (
            {device_part(0): _OVER_256_CODE_POINTS},
            *(_each(ACCOUNT, _OVER_256_CODE_POINTS, "\U0001f3ae" * 257) if ACCOUNT in form.paths else ()),
            *(_each(session_part(0), _OVER_256_CODE_POINTS) if events.has_text_ids else ()),
            {"note": _OVER_64_KIB},
        ),
        DirtKind.MISSING_DEVICE_ID: tuple(
            {device_part(number % form.device_parts): value} for number, value in enumerate(devices)
        ),
        DirtKind.MISSING_SESSION_ID: tuple(
            {session_part(number % form.session_parts): value} for number, value in enumerate(sessions)
        ),
        DirtKind.MISSING_EVENT_TIME: _each(TIME, *_NO_TIME[events.event_time.format]),
        DirtKind.UNKNOWN_EVENT: _each(EVENT, ABSENT, None, 1, *([["a"]] if skips_others else ["", *unknown_kinds])),
        DirtKind.NEGATIVE_FOREGROUND: _each(FOREGROUND, -1, -3_600),
        DirtKind.UNKNOWN_PLATFORM: _each(PLATFORM, ABSENT, None, 5, ["a"], "", "another platform"),
    }


def _unknown_kinds(events: EventMap) -> Sequence[str]:
    if is_default(events):
        return "ApplicationSessionPause", "applicationsessionstart"
    return f"{events.kinds.start[0]} paused", f"{events.kinds.start[0]} again"


_MALFORMED: Sequence[Callable[[bytes, bytes], bytes]] = (
    lambda line, _: line[: len(line) // 2],
    lambda line, _: line[:-1] + b",}",
    lambda line, _: line[:-1],
    lambda line, _: line + line,
    lambda line, _: b"[" + line + b"]",
    lambda line, _: line.replace(b'"', b"'"),
    lambda line, session_id: line.replace(session_id + b":", session_id + b":0"),
    lambda line, _: line[:-1] + b',"score":NaN}',
    lambda line, _: _in_first_name(line, b"\xff"),
    lambda line, _: _in_first_name(line, b"\x01"),
    lambda line, _: line[:-1] + b',"x":' + b"[" * _TOO_DEEP_NESTING + b"]" * _TOO_DEEP_NESTING + b"}",
    lambda *_: b"null",
    lambda *_: b"200 OK",
)


def _in_first_name(line: bytes, what: bytes) -> bytes:
    begin = len(b'{"')
    middle = begin + (line.index(b'"', begin) - begin) // 2 + 1
    return line[:middle] + what + line[middle:]


class Writer:
    """Writes messages of one form, valid or in one of the ways of a kind of dirt."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self._ways = replacements(form)
        self._session_name = json.dumps(form.paths[session_part(0)][-1]).encode()

    def text(self, values: Values, kind: DirtKind | None, turn: int) -> bytes:
        """Write a message; `turn`, any number from 0, selects the way of `kind`.

        Without a kind, or with one that does not concern the text, it is valid.
        """
        if kind is None:
            return self.form.encoded(values)
        if kind is DirtKind.MALFORMED_JSON:
            return _MALFORMED[turn % len(_MALFORMED)](self.form.encoded(values), self._session_name)
        if kind is DirtKind.LOCAL_TIME:
            return self.form.encoded({**values, TIME: self._local_time(values[TIME], turn)})
        ways = self._ways.get(kind, ({},))
        return self.form.encoded({**values, **ways[turn % len(ways)]})

    def _local_time(self, time: Any, turn: int) -> object:
        """The same instant with another offset than the usual one, where the format has one."""
        if not isinstance(time, str):
            return time
        time_format, at = self.form.events.event_time.format, datetime.fromisoformat(time)
        zone = timezone(timedelta(minutes=_MINUTES_EAST[turn % len(_MINUTES_EAST)]))
        text = at.replace(tzinfo=at.tzinfo or UTC).astimezone(zone).isoformat(timespec="milliseconds")
        if time_format == "iso8601":
            return text
        if time_format == "sql_timestamp" and turn % 3:
            text = f"{text[:-6]} {text[-6:]}".replace("T", " ")
        return text.removesuffix(":00") if turn % 2 else text[:-3] + text[-2:]
