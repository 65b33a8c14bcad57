"""Parses the lines of a stream into events or quarantine reasons, in plain Python, from the contract alone.

The job reads lines with Spark's JSON reader. This is a second implementation of the same contract, so that an error in
one of the two shows as a difference of tables.
"""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, NoReturn

from sessionization.core.events import Activity, End, Event, Start
from tests.support.avro_wire import json_of

DEFAULT: "Fields" = {
    "streams": {
        "pc_sessions": {"platform": "pc", "device_id": "hostPcId"},
        "console_sessions": {"platform": "console", "device_id": "openPsid"},
    },
    "session_id": "appSessionId",
    "event": "eventId",
    "kinds": {"start": ["ApplicationSessionStart"], "end": ["ApplicationSessionEndBi"]},
    "event_time": {"path": "timestamp", "format": "iso8601"},
    "account_id": "psnAccountId",
    "foreground_s": {"path": "totalFgTime", "unit": "s"},
}
"""The event map of that name, as the contract describes it."""
REASONS = {
    "oversized", "malformed_json", "missing_device_id", "missing_session_id", "missing_event_time", "unknown_event",
    "event_time_in_future", "event_time_too_old", "negative_foreground",
}  # fmt: skip
REASONS_OF_MAPS = REASONS | {"unknown_platform"}
"""`default` has no platform that a message could get wrong."""
MAX_CLOCK_SKEW_MS = 10 * 60_000
MAX_EVENT_AGE_MS = 7 * 86_400_000

_MAX_VALUE_BYTES = 65_536
_MAX_ID_CODE_POINTS = 256
# The job's JSON reader refuses nesting deeper than 1,000, and adds one level around each line.
_MAX_NESTING = 999
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Fields = dict[str, Any]


def lines_of(content: bytes) -> list[bytes]:
    """The messages of a file: its lines without LF or CRLF, except blank lines."""
    lines = [line.removesuffix(b"\r") for line in content.split(b"\n")]
    return [line for line in lines if line.strip(b" \t\r")]


def read(  # noqa: PLR0911, PLR0912 - one return per row of the table
    stream: str, value: bytes | None, ingested_ms: int, events: Fields = DEFAULT, *, has_activity: bool = False
) -> tuple[str, Event] | str | None:
    """Return the device and the event, or the first reason in the contract's table that fits; None for a skipped one.

    `events` is the content of an event map, of one with Avro also its `schemas` by id. `has_activity`: the job has an
    inactivity timeout.
    """
    line = value or b""
    if len(line) > _MAX_VALUE_BYTES:
        return "oversized"
    if events.get("value") == "avro" and line.startswith(b"\0"):
        line = json_of(line, events["schemas"]) or b""
    fields = _object(line)
    if fields is None:
        return "malformed_json"
    here = events | events["streams"][stream]
    kind = _text(_at(fields, events["event"]))
    starts, ends = events["kinds"]["start"], events["kinds"]["end"]
    activities = events["kinds"].get("activity", ())
    used = {*starts, *ends, *(activities if has_activity else ())}
    if kind is not None and kind not in used and (kind in activities or events.get("other_events") == "skip"):
        return None
    as_id = _text if events == DEFAULT else _text_or_integer
    device_id, parts = _id(fields, here["device_id"], as_id)
    session_id: int | str | None
    if here.get("session_id_type") == "text":
        session_id, more = _id(fields, here["session_id"], _text_or_integer)
        parts += more
    else:
        session_id = _long(_at(fields, here["session_id"]))
    account_id = as_id(_at(fields, events.get("account_id"))) or None
    if any(len(name) > _MAX_ID_CODE_POINTS for name in (*parts, account_id) if name):
        return "oversized"
    if device_id is None:
        return "missing_device_id"
    if session_id is None:
        return "missing_session_id"
    at_ms = _TIMES[events["event_time"]["format"]](_at(fields, events["event_time"]["path"]))
    if at_ms is None:
        return "missing_event_time"
    if kind not in used:
        return "unknown_event"
    platform = here["platform"]
    if not isinstance(platform, str):
        platform = platform["values"].get(_text(_at(fields, platform["path"])))
        if platform is None:
            return "unknown_platform"
    if at_ms > ingested_ms + MAX_CLOCK_SKEW_MS:
        return "event_time_in_future"
    if at_ms < ingested_ms - MAX_EVENT_AGE_MS:
        return "event_time_too_old"
    labels = tuple(_label(_at(fields, path)) for path in label_paths(events).values())
    if kind in starts:
        return device_id, Start(session_id, at_ms, platform, ingested_ms, account_id, labels)
    if kind in activities:
        return device_id, Activity(session_id, at_ms, platform, ingested_ms, account_id, labels)
    foreground = events.get("foreground_s") or {"path": None, "unit": "s"}
    foreground_s = _long(_at(fields, foreground["path"]))
    if foreground_s is not None and foreground_s < 0:
        return "negative_foreground"
    if foreground_s is not None and foreground["unit"] == "ms":
        foreground_s //= 1_000
    return device_id, End(session_id, at_ms, platform, ingested_ms, account_id, foreground_s, labels)


def skips(events: Fields, *, has_activity: bool) -> bool:
    """Whether some events of a map are skipped."""
    return events.get("other_events") == "skip" or (bool(events["kinds"].get("activity")) and not has_activity)


def label_paths(events: Fields) -> dict[str, str]:
    """The columns of title and kept values, in the map's order, with their paths."""
    return {name: path for name, path in {"title": events.get("title"), **events.get("keep", {})}.items() if path}


def _label(value: Any) -> str | None:
    text = str(value).lower() if isinstance(value, bool) else _text_or_integer(value)
    return text if text and len(text) <= _MAX_ID_CODE_POINTS else None


def _at(fields: Fields, path: str | None) -> Any:
    """The value at a path; None where there is none."""
    value: Any = fields
    for quoted, plain in re.findall(r'"([^"]+)"|([^.]+)', path or ""):
        value = value.get(quoted or plain) if isinstance(value, dict) else None
    return None if path is None else value


def _id(
    fields: Fields, paths: str | list[str], read_part: Callable[[Any], str | None]
) -> tuple[str | None, list[str | None]]:
    """An id, None where it is missing, and all that must not be too long: its parts and itself."""
    parts = [read_part(_at(fields, path)) for path in ([paths] if isinstance(paths, str) else paths)]
    present = [part for part in parts if part is not None and part.strip()]
    found = None
    if len(present) == len(parts):
        found = ":".join(map(_escaped, present)) if len(parts) > 1 else present[0]
    return found, [*parts, found]


def _escaped(part: str) -> str:
    return re.sub(r"([\\:])", r"\\\1", part)


def _object(line: bytes) -> Fields | None:
    try:
        value = json.loads(line.decode("utf-8"), parse_constant=_refuse, parse_float=_number)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and _nesting(value) <= _MAX_NESTING else None


class _Decimal(Decimal):
    """A number with a fraction and without an exponent."""


def _number(text: str) -> float | Decimal:
    return float(text) if "e" in text.lower() else _Decimal(text)


def _refuse(constant: str) -> NoReturn:
    msg = f"{constant} is not JSON"
    raise ValueError(msg)


def _nesting(value: Fields) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        inner = [part for parts in level for part in (parts.values() if isinstance(parts, dict) else parts)]
        level = [part for part in inner if isinstance(part, dict | list)]
    return depth


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value) else None


def _text_or_integer(value: Any) -> str | None:
    return _text(value) if isinstance(value, str) else None if _long(value) is None else str(value)


def _long(value: Any) -> int | None:
    return value if type(value) is int and -(2**63) <= value < 2**63 else None


def _iso8601(value: Any, *, basic: bool = False) -> int | None:
    text = _text(value) or ""
    if basic:  # both offsets are other spellings of the usual one
        text = re.sub(r"(T.*[+-]\d\d)(\d\d)?$", lambda found: f"{found[1]}:{found[2] or '00'}", text, flags=re.ASCII)
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    digits, sign, hours, minutes = match.group(7, 8, 9, 10)
    offset_minutes = 0 if sign is None else int(sign + hours) * 60 + int(sign + minutes)
    if sign is not None and (int(hours) > 23 or int(minutes) > 59):
        return None
    try:
        at = datetime(*map(int, match.groups()[:6]), tzinfo=timezone(timedelta(minutes=offset_minutes)))
    except ValueError:
        return None
    return (at - _EPOCH) // timedelta(seconds=1) * 1_000 + int(f"{digits or ''}000"[:3])


def _sql_timestamp(value: Any) -> int | None:
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d)[T ]([\d:.]+)(?: ?(Z|[+-].*))?", _text(value) or "", flags=re.ASCII)
    return None if found is None else _iso8601(f"{found[1]}T{found[2]}{found[3] or 'Z'}", basic=True)


def _epoch_s(value: Any) -> int | None:
    if isinstance(value, _Decimal):
        return int(Fraction(value) * 1_000)  # which cuts
    return None if type(value) is not int else value * 1_000


_TIMES = {
    "iso8601": _iso8601,
    "iso8601_basic_offset": partial(_iso8601, basic=True),
    "sql_timestamp": _sql_timestamp,
    "epoch_ms": _long,
    "epoch_s": _epoch_s,
}
