"""Parses the lines of a stream into events or quarantine reasons, in plain Python, from the contract alone.

The job reads lines with Spark's JSON reader. This is a second implementation of the same contract, so that an error in
one of the two shows as a difference of tables.
"""

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NoReturn

from sessionization.core.events import End, Event, Platform, Start

STREAMS = {"pc_sessions": ("hostPcId", Platform.PC), "console_sessions": ("openPsid", Platform.CONSOLE)}
REASONS = {
    "oversized", "malformed_json", "missing_device_id", "missing_session_id", "missing_event_time", "unknown_event",
    "event_time_in_future", "event_time_too_old", "negative_foreground",
}  # fmt: skip
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


def read(  # noqa: PLR0911 - one return per row of the table
    stream: str, value: bytes | None, ingested_ms: int
) -> tuple[str, Event] | str:
    """Return the device and the event, or the first reason in the contract's table that fits."""
    line = value or b""
    device_field, platform = STREAMS[stream]
    fields = _object(line) if len(line) <= _MAX_VALUE_BYTES else None
    device_id = _text(fields, device_field)
    account_id = _text(fields, "psnAccountId") or None
    session_id = _long(fields, "appSessionId")
    at_ms = _epoch_ms(_text(fields, "timestamp") or "")
    kind = _text(fields, "eventId")
    foreground_s = _long(fields, "totalFgTime")
    too_long = any(len(name) > _MAX_ID_CODE_POINTS for name in (device_id, account_id) if name)
    if len(line) > _MAX_VALUE_BYTES or too_long:
        return "oversized"
    if fields is None:
        return "malformed_json"
    if device_id is None or not device_id.strip():
        return "missing_device_id"
    if session_id is None:
        return "missing_session_id"
    if at_ms is None:
        return "missing_event_time"
    if kind not in {"ApplicationSessionStart", "ApplicationSessionEndBi"}:
        return "unknown_event"
    if at_ms > ingested_ms + MAX_CLOCK_SKEW_MS:
        return "event_time_in_future"
    if at_ms < ingested_ms - MAX_EVENT_AGE_MS:
        return "event_time_too_old"
    if kind == "ApplicationSessionStart":
        return device_id, Start(session_id, at_ms, platform, ingested_ms, account_id)
    if foreground_s is not None and foreground_s < 0:
        return "negative_foreground"
    return device_id, End(session_id, at_ms, platform, ingested_ms, account_id, foreground_s)


def _object(line: bytes) -> Fields | None:
    try:
        value = json.loads(line.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and _nesting(value) <= _MAX_NESTING else None


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


def _text(fields: Fields | None, name: str) -> str | None:
    value = (fields or {}).get(name)
    return value if isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value) else None


def _long(fields: Fields | None, name: str) -> int | None:
    value = (fields or {}).get(name)
    return value if type(value) is int and -(2**63) <= value < 2**63 else None


def _epoch_ms(text: str) -> int | None:
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
