"""What a map understood of a sample of messages, in lines for the person who writes the map."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any, get_args

from sessionization.durations import DAY_MS
from sessionization.event_map.field_path import Names, written
from sessionization.event_map.model import EventMap
from sessionization.event_map.parts import EventTime
from sessionization.message_limits import SKIPPED, EventTimeLimits
from sessionization.sample.read_message import Message, Reading, epoch_ms, read_message, value_at

_SHOWN = 60
_MOST_NAMES = 20
_DEFAULT_ID = re.compile(r"(?i)[0-]+|unknown|undefined|none|null|nil|n/?a|default|device|anonymous")
"""Ids that clients send where they have none."""
_LARGE_SHARE = 0.2
_FEW_DEVICES = 20
"""With fewer devices in a sample, each has a large share."""
_PLACES = {
    "oversized": ("device_id", "session_id", "account_id"),
    "missing_device_id": ("device_id",),
    "missing_session_id": ("session_id",),
    "missing_event_time": ("event_time",),
    "unknown_event": ("event",),
    "unknown_platform": ("platform",),
    "event_time_in_future": ("event_time",),
    "event_time_too_old": ("event_time",),
    "negative_foreground": ("foreground_s",),
}
"""The places in the map that a reason is about."""
_PLAUSIBLE_MS = 10 * 365 * DAY_MS
"""An event time is no further than this from the arrival of its message."""
_BEYOND_ANY_MS = 1 << 53
_FORMATS = get_args(EventTime.model_fields["format"].annotation)


@dataclass(frozen=True, slots=True)
class SampleReport:
    """How many messages of a sample are valid events, and the lines that say what was understood."""

    events: int
    lines: Sequence[str]
    all_skipped: bool
    """Whether each of the messages is of a kind that is skipped."""


def report_on(
    messages: Iterable[Message], events: EventMap, limits: EventTimeLimits, *, has_activity: bool
) -> SampleReport:
    """Read the messages as the job would, with or without an inactivity timeout, and sum up what was understood."""
    read = [(message, read_message(message, events, limits, has_activity=has_activity)) for message in messages]
    reasons = Counter(reading.reason for _, reading in read)
    valid, skipped = reasons.pop(None, 0), reasons.pop(SKIPPED, 0)
    lines = [
        f"{len(read):,} messages: {valid:,} events, {skipped:,} skipped, {reasons.total():,} would go to quarantine",
        *_kinds([reading for _, reading in read], events),
        *(_quarantined(reason, count, read, events) for reason, count in reasons.most_common() if reason),
        *_unknown_platforms(read, events),
        *_never_there(read, events),
        *_devices([reading for _, reading in read if reading.reason is None]),
        *_times(read),
    ]
    return SampleReport(valid, lines, all_skipped=0 < len(read) == skipped)


def _kinds(readings: Sequence[Reading], events: EventMap) -> Iterator[str]:
    """How often each kind of event is there, and what the map takes it for."""
    meaning = {kind: name for name in ("start", "end", "activity") for kind in getattr(events.kinds, name)}
    found = Counter(reading.kind for reading in readings if reading.kind is not None)
    other = "skipped" if events.other_events == "skip" else "other"
    counted = (f"{_shown(kind)} {count:,} ({meaning.get(kind, other)})" for kind, count in found.most_common())
    yield f"kinds: {_listed(counted) or f'none, for {events.event} holds no text'}"
    if missing := [kind for kind in meaning if kind not in found]:
        yield f"kinds that were never there: {', '.join(missing)}"


def _quarantined(reason: str, count: int, read: Sequence[tuple[Message, Reading]], events: EventMap) -> str:
    """A reason, how often it applies, and the first message that has it."""
    message, reading = next(one for one in read if one[1].reason == reason)
    line = f"{reason} {count:,}: {message.place}"
    if reading.fields is None:
        return f"{line}: {_shown(message.value.decode(errors='replace'))}"
    paths = events.paths_of(message.stream)
    held = [_held(reading.fields, path) for place in _PLACES[reason] for path in paths.get(place, ())]
    return "; ".join((f"{line}: {', '.join(held)}", *_advice(message, reading, paths, events)))


def _advice(
    message: Message, reading: Reading, paths: Mapping[str, Sequence[Names]], events: EventMap
) -> Iterator[str]:
    """What to change in the map, where the message shows it."""
    reason = reading.reason or ""
    if reason == "missing_event_time":
        value = value_at(reading.fields or {}, paths["event_time"][0])
        read = ((name, epoch_ms(value, name)) for name in _FORMATS)
        fitting = [name for name, ms in read if ms is not None and abs(ms - message.ingested_ms) < _PLAUSIBLE_MS]
        if fitting:
            yield f"event_time.format {fitting[0]} would read it, {events.event_time.format} does not"
    if reason.startswith("event_time_"):
        yield "its time is compared with the time at which the message arrived, of a file its modification time"
    if reason == "event_time_too_old":
        yield "of an older sample, set that back: touch -d 2026-01-31 FILE"
    if reason == "missing_session_id" and not events.has_text_ids:
        value = value_at(reading.fields or {}, paths["session_id"][0])
        if isinstance(value, str) and value.strip():
            yield "session_id_type: text would read it"
    if reason == "unknown_event" and reading.kind is not None:
        yield "add it to kinds, or write other_events: skip"
    if reason == "unknown_platform" and isinstance(value_at(reading.fields or {}, paths["platform"][0]), str):
        yield f"add it to streams.{message.stream}.platform.values"


def _unknown_platforms(read: Sequence[tuple[Message, Reading]], events: EventMap) -> Iterator[str]:
    """The texts that `values` of a platform lacks, all at once, so that a person adds them at once."""
    texts = Counter(
        text
        for message, reading in read
        if reading.reason == "unknown_platform"
        for path in events.paths_of(message.stream)["platform"]
        if isinstance(text := value_at(reading.fields or {}, path), str)
    )
    if len(texts) > 1:
        counted = (f"{_shown(text)} {count:,}" for text, count in texts.most_common())
        yield f"platforms that are not in the map: {_listed(counted)}"


def _never_there(read: Sequence[tuple[Message, Reading]], events: EventMap) -> Iterator[str]:
    """The fields of the map that no message has."""
    objects = [(message.stream, reading.fields) for message, reading in read if reading.fields is not None]
    streams = dict.fromkeys(stream for stream, _ in objects)
    absent = [
        f"{written(path)} ({place}{f' of {stream}' if len(streams) > 1 else ''})"
        for stream in streams
        for place, paths in events.paths_of(stream).items()
        for path in paths
        if all(value_at(fields, path) is None for of, fields in objects if of == stream)
    ]
    if absent:
        yield f"fields that were never there: {', '.join(absent)}"


def _devices(valid: Sequence[Reading]) -> Iterator[str]:
    """How sessions are spread over devices, and a device id that looks like none."""
    if not valid:
        return
    messages = Counter(reading.device_id or "" for reading in valid)
    ids = Counter(device for device, _ in {(reading.device_id or "", reading.session_id) for reading in valid})
    [(fullest, most)] = ids.most_common(1)
    yield (
        f"devices: {len(ids):,}; session ids per device: median {median(ids.values()):g}, "
        f"most {most:,} ({_shown(fullest)})"
    )
    [(device, count)] = messages.most_common(1)
    share = count / len(valid)
    line = f"most frequent device id: {_shown(device)} in {share:.0%} of the events"
    suspects = [name for name in messages if _DEFAULT_ID.fullmatch(name)]
    if share > _LARGE_SHARE and len(messages) > _FEW_DEVICES and device not in suspects:
        line += ": all its players would be one device; see that it is no default"
    yield line
    if suspects:
        named = ", ".join(f"{_shown(name)} in {messages[name]:,} events" for name in suspects)
        yield f"device ids that look like a default: {named}; all their players would be one device"


def _times(read: Sequence[tuple[Message, Reading]]) -> Iterator[str]:
    """How far the event times are behind the times at which the messages arrived."""
    known = ((message.ingested_ms, reading.event_ms) for message, reading in read)
    behind_ms = [ingested_ms - ms for ingested_ms, ms in known if ms is not None and abs(ms) < _BEYOND_ANY_MS]
    if len(behind_ms) > 1:
        p1, *_, p99 = (f"{ms / 1_000:,.1f}" for ms in quantiles(behind_ms, n=100, method="inclusive"))
        half = f"{median(behind_ms) / 1_000:,.1f}"
        yield f"seconds from event time to arrival: p1 {p1}, median {half}, p99 {p99} (negative: the clock is ahead)"


def _held(fields: Mapping[str, Any], path: Names) -> str:
    value = value_at(fields, path)
    return (
        f"{written(path)} is absent"
        if value is None
        else f"{written(path)} holds {_cut(json.dumps(value, ensure_ascii=False, default=float))}"
    )


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(
        names if len(names) <= _MOST_NAMES else [*names[:_MOST_NAMES], f"{len(names) - _MOST_NAMES:,} more"]
    )


def _shown(text: str) -> str:
    return _cut(text if text.isprintable() and text else json.dumps(text))


def _cut(text: str) -> str:
    text = text.encode(errors="backslashreplace").decode()  # half of a pair of code points cannot be printed
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
