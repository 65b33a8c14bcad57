"""Converts between rows and the core's types: events in, state entries both ways, changes out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from sessionization.core.events import End, EndReason, Event, Platform, Start
from sessionization.core.heartbeat_grid import Firing
from sessionization.core.session_rules import Outcome
from sessionization.core.session_state import Closed, Live, PendingEnd, SessionState
from sessionization.spark.input.parse import EVENT_COLUMNS

STATE_SCHEMA = StructType(
    [
        StructField("status", StringType()),
        StructField("platform", StringType()),
        StructField("account_id", StringType()),
        StructField("started_ms", LongType()),
        StructField("opened_ms", LongType()),
        StructField("ended_ms", LongType()),
        StructField("end_reason", StringType()),
        StructField("revision", IntegerType()),
        StructField("foreground_s", LongType()),
        StructField("since_ms", LongType()),
        StructField("place", LongType()),
    ]
)
"""A state entry. A field that a status does not have is null. `since_ms` is when it was closed or seen, and `place`
is the core's `closing_order`: its rank by when the device's entries were closed or seen.
"""

_STORED_FIELDS = ("session_id", *STATE_SCHEMA.names)
_SESSION_INDEX, _STATUS_INDEX, _PLATFORM_INDEX, _ACCOUNT_INDEX, _STARTED_INDEX, _OPENED_INDEX, _SINCE_INDEX = map(
    _STORED_FIELDS.index, ("session_id", "status", "platform", "account_id", "started_ms", "opened_ms", "since_ms")
)
_NOT_LIVE = {"closed", "pending_end"}

StateValue = tuple[Any, ...]
"""A value of `STATE_SCHEMA`, field by field."""

StoredEntry = Sequence[Any]
"""An entry for JSON: the session id, then the fields of `STATE_SCHEMA`.

The last nulls are left out: a live session ends with `opened_ms`.
"""

StoredSessions = list[StoredEntry]
"""A device's entries as `encode_entries` wrote them."""

OUTPUT_SCHEMA = StructType(
    [
        StructField("device_id", StringType()),
        StructField("session_id", LongType()),
        StructField("account_id", StringType()),
        StructField("platform", StringType()),
        StructField("change", StringType()),
        StructField("end_reason", StringType()),
        StructField("revision", IntegerType()),
        StructField("started_ms", LongType()),
        StructField("ended_ms", LongType()),
        StructField("duration_ms", LongType()),
        StructField("foreground_s", LongType()),
        StructField("beat", IntegerType()),
        StructField("missed_beats", IntegerType()),
        StructField("due_ms", LongType()),
        StructField("event_ms", LongType()),
        StructField("ingested_ms", LongType()),
        StructField("processed_ms", LongType()),
        StructField("events", IntegerType()),
        StructField("duplicate_start", IntegerType()),
        StructField("duplicate_end", IntegerType()),
        StructField("evicted", IntegerType()),
        StructField("entries", IntegerType()),
    ]
)
"""A row of the operator: a change (`change` not null), the counts of a device's events, or both.

A row may instead hold the number of `entries` of a device group; `device_id` is then the group. Columns of a change
stand before `processed_ms`, counts after it. `output_rows` returns the same order.
"""

PACKED_OUTPUT_SCHEMA = StructType([StructField(field.name, ArrayType(field.dataType)) for field in OUTPUT_SCHEMA])
"""The operator's output to Spark: an array per column of `OUTPUT_SCHEMA`, so one row carries many."""

OutputRow = tuple[Any, ...]
"""A row of `OUTPUT_SCHEMA`, field by field."""

_PLATFORMS = {platform.value: platform for platform in Platform}
_PackedRow = Row(*OUTPUT_SCHEMA.names)
_MAX_PACKED_ROWS = 10_000
_NO_TALLY = (None, None, None, None)
_NO_CHANGE = (None,) * (OUTPUT_SCHEMA.names.index("processed_ms") - 1)


def pack_event() -> Column:
    """Return the columns of a valid event as one JSON text.

    PySpark would convert separate columns cell by cell, which costs the most.
    """
    return F.to_json(F.array(*(F.col(name).cast("string") for name in EVENT_COLUMNS)))


def unpack_event(text: str) -> tuple[str, Event]:
    """Read the device and the event that `pack_event` wrote."""
    device_id, session_id, is_start, event_ms, foreground_s, account_id, platform, ingested_ms = orjson.loads(text)
    fields = int(session_id), int(event_ms), _PLATFORMS[platform], int(ingested_ms), account_id
    if is_start == "true":
        return device_id, Start(*fields)
    return device_id, End(*fields, None if foreground_s is None else int(foreground_s))


def decode_entry(value: StateValue) -> SessionState:
    """Read a value of `STATE_SCHEMA`; raises `ValueError` for one that `encode_entry` does not write."""
    try:
        (
            status, platform, account_id, started_ms, opened_ms, ended_ms, reason, revision,
            foreground_s, since_ms, closing_order,
        ) = value  # fmt: skip
        match status:
            case "live":
                return Live(started_ms, opened_ms, account_id, Platform(platform))
            case "closed":
                return Closed(
                    started_ms,
                    ended_ms,
                    EndReason(reason),
                    revision,
                    foreground_s,
                    account_id,
                    Platform(platform),
                    since_ms,
                    closing_order,
                )
            case "pending_end":
                return PendingEnd(ended_ms, foreground_s, account_id, Platform(platform), since_ms, closing_order)
            case _:
                msg = f"{status!r} is not a valid status"
                raise ValueError(msg)  # noqa: TRY301 - reported below, like the errors of the enums
    except ValueError as error:
        msg = f"a state entry cannot be read ({error}): restore a backup, or begin a new checkpoint"
        raise ValueError(msg) from error


def encode_entry(entry: SessionState) -> StateValue:
    """Write a value of `STATE_SCHEMA`."""
    match entry:
        case Live():
            return (
                "live", entry.platform.value, entry.account_id, entry.started_ms, entry.opened_ms,
                None, None, None, None, None, None,
            )  # fmt: skip
        case Closed():
            return (
                "closed", entry.platform.value, entry.account_id, entry.started_ms, None, entry.ended_ms,
                entry.reason.value, entry.revision, entry.foreground_s, entry.closed_ms, entry.closing_order,
            )  # fmt: skip
        case PendingEnd():
            return (
                "pending_end", entry.platform.value, entry.account_id, None, None, entry.at_ms,
                None, None, entry.foreground_s, entry.seen_ms, entry.closing_order,
            )  # fmt: skip


def decode_entries(rows: Iterable[StoredEntry]) -> dict[int, SessionState]:
    """Read a device's entries by session id.

    Raises `ValueError` for an unknown status, platform or reason, and for too many fields.
    """
    nulls = (None,) * len(STATE_SCHEMA.fields)
    return {session_id: decode_entry((*value, *nulls[len(value) :])) for session_id, *value in rows}


def encode_entries(entries: Mapping[int, SessionState]) -> StoredSessions:
    """Write a device's entries for JSON, without their last nulls: a live session's would be a sixth of the text."""
    return [_without_last_nulls((session_id, *encode_entry(entry))) for session_id, entry in entries.items()]


def _without_last_nulls(entry: StoredEntry) -> StoredEntry:
    end = len(entry)
    while entry[end - 1] is None:  # the session id never is
        end -= 1
    return entry[:end]


def live_if_only_beating(rows: Iterable[StoredEntry], closed_by_ms: int, opened_by_ms: int) -> list[StoredEntry] | None:
    """Return a device's live entries if a timer can only make them beat; otherwise None.

    A timer can do no more if all closed and pending entries were closed or seen after `closed_by_ms`, and all live ones
    were opened after `opened_by_ms`. Most devices are in this state, so the check does not decode the entries. It
    returns None too for a live entry that `decode_entries` refuses.
    """
    live = []
    for row in rows:
        if row[_STATUS_INDEX] == "live":
            if row[_PLATFORM_INDEX] not in _PLATFORMS or row[_OPENED_INDEX] <= opened_by_ms:
                return None
            live.append(row)
        elif row[_STATUS_INDEX] not in _NOT_LIVE or row[_SINCE_INDEX] <= closed_by_ms:
            return None
    return live


def output_rows(device_id: str, outcome: Outcome, now_ms: int) -> Iterator[OutputRow]:
    """Make one row per change. The counts, if any, go into the first row, or alone into their own row."""
    tally = outcome.tally
    counts = (tally.events, tally.duplicate_start, tally.duplicate_end, tally.evicted) if tally.events else _NO_TALLY
    for change in outcome.changes:
        yield (
            device_id,
            change.session_id,
            change.account_id,
            change.platform,
            change.kind,
            change.end_reason,
            change.revision,
            change.started_ms,
            change.ended_ms,
            change.duration_ms,
            change.foreground_s,
            change.beat,
            change.missed_beats,
            change.due_ms,
            change.event_ms,
            change.ingested_ms,
            change.processed_ms,
            *counts,
            None,
        )
        counts = _NO_TALLY
    if counts is not _NO_TALLY:
        yield (device_id, *_NO_CHANGE, now_ms, *counts, None)


def entries_row(group: str, entries: int, now_ms: int) -> OutputRow:
    """Make the row with the number of entries of a device group."""
    return (group, *_NO_CHANGE, now_ms, *_NO_TALLY, entries)


def pack_rows(rows: Sequence[OutputRow]) -> Iterator[Row]:
    """Pack rows of `OUTPUT_SCHEMA` into rows of `PACKED_OUTPUT_SCHEMA`."""
    for start in range(0, len(rows), _MAX_PACKED_ROWS):
        yield _PackedRow(*zip(*rows[start : start + _MAX_PACKED_ROWS], strict=True))


def pack_heartbeats(live: Iterable[tuple[str, StoredEntry]], firing: Firing) -> Iterator[Row]:
    """Make the heartbeats of live sessions, given with their devices, column by column.

    The rows equal those that `on_timer` makes one by one.
    """
    missed = firing.missed
    if missed < 0:
        return
    beating = [(*session, beat) for session in live if (beat := firing.beat_number(session[1][_OPENED_INDEX])) >= 1]
    for start in range(0, len(beating), _MAX_PACKED_ROWS):
        device_ids, entries, beats = zip(*beating[start : start + _MAX_PACKED_ROWS], strict=True)
        count = len(beats)
        # All columns are tuples: PySpark searches lists cell by cell for nested rows.
        columns = {
            "device_id": device_ids,
            "session_id": tuple(entry[_SESSION_INDEX] for entry in entries),
            "account_id": tuple(entry[_ACCOUNT_INDEX] for entry in entries),
            "platform": tuple(entry[_PLATFORM_INDEX] for entry in entries),
            "change": ("heartbeat",) * count,
            "revision": (0,) * count,
            "started_ms": tuple(entry[_STARTED_INDEX] for entry in entries),
            "duration_ms": tuple(firing.now_ms - entry[_OPENED_INDEX] for entry in entries),
            "beat": beats,
            "missed_beats": tuple(min(beat - 1, missed) for beat in beats) if missed else (0,) * count,
            "due_ms": (firing.due_ms,) * count,
            "processed_ms": (firing.now_ms,) * count,
        }
        nulls = (None,) * count
        yield _PackedRow(*(columns.get(name, nulls) for name in OUTPUT_SCHEMA.names))


def unpack_rows(packed_rows: DataFrame) -> DataFrame:
    """Unpack rows of `PACKED_OUTPUT_SCHEMA` into rows of `OUTPUT_SCHEMA`."""
    return packed_rows.select(F.inline(F.arrays_zip(*OUTPUT_SCHEMA.names)))
