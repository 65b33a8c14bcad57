"""What a message means under an event map, in plain Python: `parse` for a person's sample, where no Spark runs.

The rules are those of `spark.input.parse`. The cases of its tests are read by both.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, NoReturn

from sessionization.event_map.field_path import Names, names_of
from sessionization.event_map.model import EventMap
from sessionization.event_map.parts import PlatformField
from sessionization.event_map.reading import is_default
from sessionization.message_limits import MAX_ID_CODE_POINTS, MAX_VALUE_BYTES, SKIPPED, EventTimeLimits

_MAX_NESTING = 999
"""How deep the job's JSON reader goes."""
_BIGINT = range(-(1 << 63), 1 << 63)
_DATE, _TIME = r"\d{4}-\d\d-\d\d", r"(?:[01]\d|2[0-3]):\d\d:\d\d"
_FRACTION = r"(?:\.(\d+))?"
_HOURS, _MINUTES = r"[+-](?:[01]\d|2[0-3])", r"[0-5]\d"
_ANY_OFFSET = rf"(Z|{_HOURS}(?::?{_MINUTES})?)"
_TEXTS = {
    "iso8601": re.compile(rf"({_DATE}T{_TIME}){_FRACTION}(Z|{_HOURS}:{_MINUTES})", re.ASCII),
    "iso8601_basic_offset": re.compile(rf"({_DATE}T{_TIME}){_FRACTION}{_ANY_OFFSET}", re.ASCII),
    "sql_timestamp": re.compile(rf"({_DATE}[T ]{_TIME}){_FRACTION}(?: ?{_ANY_OFFSET})?", re.ASCII),
}


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a sample."""

    stream: str
    value: bytes
    ingested_ms: int
    place: str
    """Where it is, for the person: `message 3`."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was understood of a message; a value is None where it is absent or does not fit."""

    reason: str | None
    """Why it is quarantined, `SKIPPED`, or None for a valid event."""
    fields: Mapping[str, Any] | None = None
    """The message, where it is one JSON object."""
    kind: str | None = None
    device_id: str | None = None
    session_id: int | str | None = None
    event_ms: int | None = None


def read_message(message: Message, events: EventMap, limits: EventTimeLimits, *, has_activity: bool) -> Reading:
    """Read a message; of several reasons the first one of docs/tables.md counts.

    `has_activity`: whether Activities are events, as with an inactivity timeout.
    """
    value, stream, ingested_ms = message.value, message.stream, message.ingested_ms
    if len(value) > MAX_VALUE_BYTES:
        return Reading("oversized")
    fields = _json_object(value)
    if fields is None:
        return Reading("malformed_json")
    as_id = _text if is_default(events) else _text_or_integer
    parts = [as_id(value_at(fields, path)) for path in events.device_id_of(stream)]
    kind = _text(value_at(fields, names_of(events.event)))
    device_id = _joined(parts)
    session_parts = [value_at(fields, path) for path in events.session_id_of(stream)]
    session_id: int | str | None
    if events.has_text_ids:
        texts = [_text_or_integer(part) for part in session_parts]
        session_id = _joined(texts)
        parts += [*texts, session_id]
    else:
        session_id = _bigint(session_parts[0])
    event_ms = epoch_ms(value_at(fields, names_of(events.event_time.path)), events.event_time.format)
    account_id = as_id(_optional(fields, events.account_id))
    is_end = kind in events.kinds.end
    foreground = _bigint(_optional(fields, events.foreground_s.path)) if is_end and events.foreground_s else None

    def reasons() -> Iterator[str]:
        is_used = kind in events.used_kinds(has_activity=has_activity)
        is_other = kind is not None and not is_used
        if is_other and (kind in events.kinds.activity or events.other_events == "skip"):
            yield SKIPPED
        if any(len(text) > MAX_ID_CODE_POINTS for text in (*parts, device_id, account_id) if text is not None):
            yield "oversized"
        if device_id is None:
            yield "missing_device_id"
        if session_id is None:
            yield "missing_session_id"
        if event_ms is None:
            yield "missing_event_time"
        if not is_used:
            yield "unknown_event"
        if not _has_platform(fields, stream, events):
            yield "unknown_platform"
        ahead_ms = 0 if event_ms is None else event_ms - ingested_ms
        if ahead_ms > limits.max_clock_skew_ms:
            yield "event_time_in_future"
        if ahead_ms < -limits.max_event_age_ms:
            yield "event_time_too_old"
        if foreground is not None and foreground < 0:
            yield "negative_foreground"

    return Reading(next(reasons(), None), fields, kind, device_id, session_id, event_ms)


def value_at(fields: Mapping[str, Any], path: Names) -> Any:
    """The value at a path; None where there is none."""
    value: Any = fields
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _optional(fields: Mapping[str, Any], path: str | None) -> Any:
    return None if path is None else value_at(fields, names_of(path))


def _has_platform(fields: Mapping[str, Any], stream: str, events: EventMap) -> bool:
    platform = events.streams[stream].platform
    if not isinstance(platform, PlatformField):
        return True
    return _text(value_at(fields, names_of(platform.path))) in platform.values


def _json_object(value: bytes) -> Mapping[str, Any] | None:
    try:
        found = json.loads(value.decode(), parse_constant=_refuse, parse_float=_fraction)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and _nesting(found) <= _MAX_NESTING else None


def _refuse(constant: str) -> NoReturn:
    msg = f"{constant} is not JSON"
    raise ValueError(msg)


def _fraction(text: str) -> float | Decimal:
    """A number with an exponent is a float: no format of a time takes it."""
    return float(text) if "e" in text.lower() else Decimal(text)


def _nesting(value: object) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        holders = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [one for holder in holders for one in holder if isinstance(one, dict | list)]
    return depth


def _text(value: object) -> str | None:
    """The value if it is a text of valid Unicode."""
    return value if isinstance(value, str) and not re.search("[\ud800-\udfff]", value) else None


def _bigint(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value in _BIGINT else None


def _text_or_integer(value: object) -> str | None:
    return _text(value) if _bigint(value) is None else str(value)


def _joined(parts: Sequence[str | None]) -> str | None:
    """The id of one part, or the escaped parts of a composite one; None where a part is missing."""
    texts = [part for part in parts if part is not None and part.strip()]
    if len(texts) < len(parts):
        return None
    return texts[0] if len(texts) == 1 else ":".join(re.sub(r"([\\:])", r"\\\1", text) for text in texts)


def epoch_ms(value: object, time_format: str) -> int | None:
    """The event time in a format of the map as UTC milliseconds; None for any other value."""
    match time_format:
        case "epoch_ms":
            return _bigint(value)
        case "epoch_s":
            return int(value * 1_000) if isinstance(value, int | Decimal) and not isinstance(value, bool) else None
        case _:
            return _ms_of_text(_TEXTS[time_format].fullmatch(_text(value) or ""))


def _ms_of_text(found: re.Match[str] | None) -> int | None:
    if found is None:
        return None
    seconds, digits, offset = found.groups()
    try:
        at = datetime.fromisoformat(f"{seconds}{offset or 'Z'}")
    except ValueError:  # such as the 30th of February
        return None
    return int(at.timestamp()) * 1_000 + int(f"{digits or ''}000"[:3])
