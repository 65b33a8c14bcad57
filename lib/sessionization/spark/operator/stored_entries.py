"""State entries as they are stored, and the core's entries made from them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from sessionization.core.events import EndReason, Labels, SessionId
from sessionization.core.heartbeats import LIVE_COLUMNS
from sessionization.core.session_state import Closed, Expiry, Live, PendingEnd, SessionState, Signs

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

A live session with signs of life (`Signs`) has them in `ended_ms` (last active), `since_ms` (heard), `revision`, and
`place` (when it was resumed). So a state that began without them needs no other fields. A status with an implied start
begins with `implied_`.

A field of live sessions stands before `opened_ms`, since the last nulls of an entry may be missing.
"""

StateValue = tuple[Any, ...]
"""A value of `STATE_SCHEMA`, field by field, and after it the labels as a list, if the entry has any."""

StoredEntry = Sequence[Any]
"""The session id, then the fields of `STATE_SCHEMA`; the last nulls may be missing. Then the labels, likewise."""

StoredDevices = Mapping[str, Sequence[StoredEntry]]
"""Stored entries by device id; a device without entries has none, or is missing."""

_FIELDS = ("session_id", *STATE_SCHEMA.names)
_STATUS, _OPENED, _SINCE, _PLACE = map(_FIELDS.index, ("status", "opened_ms", "since_ms", "place"))
_LAST_ACTIVE = _FIELDS.index("ended_ms")  # of a live session
_LIVE_FIELDS = {name: _FIELDS.index(name) for name in LIVE_COLUMNS if name != "device_id"}
_NULLS = (None,) * len(STATE_SCHEMA.fields)
_LIVE, _IMPLIED_LIVE, _CLOSED, _IMPLIED_CLOSED = "live", "implied_live", "closed", "implied_closed"
LIVE_STATUSES, CLOSED_STATUSES = (_LIVE, _IMPLIED_LIVE), (_CLOSED, _IMPLIED_CLOSED)
_PENDING_END = "pending_end"
_STATUSES_THAT_END = (*CLOSED_STATUSES, _PENDING_END)


def split_labels(stored: Sequence[Any]) -> tuple[Sequence[Any], list[str | None] | None]:
    """Split the labels off a `StateValue` or a `StoredEntry`; None where it has none."""
    return (stored[:-1], stored[-1]) if isinstance(stored[-1], list) else (stored, None)


def decode_entry(value: StateValue, label_count: int = 0) -> SessionState:
    """Read a `StateValue`; raises `ValueError` for one that `encode_entry` does not write.

    Labels that were stored before the job had all of its `label_count` columns are filled up with None.
    """
    fields: Sequence[Any] = value
    labels: Labels = ()
    if label_count:
        fields, stored_labels = split_labels(value)
        known: Labels = tuple(stored_labels or ())
        labels = known + (None,) * (label_count - len(known))
    try:
        (
            status, platform, account_id, started_ms, opened_ms, ended_ms, reason, revision,
            foreground_s, since_ms, closing_order,
        ) = fields  # fmt: skip
        match status:
            case "live" | "implied_live":
                signs = None
                if since_ms is not None:
                    signs = Signs(ended_ms, since_ms, status == _IMPLIED_LIVE, closing_order, revision)
                return Live(started_ms, opened_ms, account_id, platform, labels, signs)
            case "closed" | "implied_closed":
                return Closed(
                    started_ms,
                    ended_ms,
                    EndReason(reason),
                    revision,
                    foreground_s,
                    account_id,
                    platform,
                    since_ms,
                    closing_order,
                    labels,
                    opened_ms,
                    status == _IMPLIED_CLOSED,
                )
            case "pending_end":
                return PendingEnd(ended_ms, foreground_s, account_id, platform, since_ms, closing_order, labels)
            case _:
                msg = f"{status!r} is not a valid status"
                raise ValueError(msg)  # noqa: TRY301 - reported below, like the errors of the enums
    except ValueError as error:
        msg = f"a state entry cannot be read ({error}): restore a backup, or begin a new checkpoint"
        raise ValueError(msg) from error


def encode_entry(entry: SessionState) -> StateValue:
    """Write a `StateValue`."""
    labels = [list(entry.labels)] if entry.labels and any(label is not None for label in entry.labels) else []
    match entry:
        case Live(signs=Signs() as signs):
            return (
                _IMPLIED_LIVE if signs.is_implied else _LIVE, entry.platform, entry.account_id, entry.started_ms,
                entry.opened_ms, signs.last_active_ms, None, signs.revision, None, signs.heard_ms, signs.resumed_ms,
                *labels,
            )  # fmt: skip
        case Live():
            return (
                _LIVE, entry.platform, entry.account_id, entry.started_ms, entry.opened_ms,
                None, None, None, None, None, None, *labels,
            )  # fmt: skip
        case Closed():
            return (
                _IMPLIED_CLOSED if entry.is_implied else _CLOSED, entry.platform, entry.account_id, entry.started_ms,
                entry.opened_ms, entry.ended_ms, entry.reason.value, entry.revision, entry.foreground_s,
                entry.closed_ms, entry.closing_order, *labels,
            )  # fmt: skip
        case PendingEnd():
            return (
                _PENDING_END, entry.platform, entry.account_id, None, None, entry.at_ms,
                None, None, entry.foreground_s, entry.seen_ms, entry.closing_order, *labels,
            )  # fmt: skip


def decode_fields(fields: Mapping[str, Any], label_count: int = 0) -> SessionState:
    """Read an entry from the fields of `STATE_SCHEMA` by name, and `labels`, a list; null ones may be missing."""
    labels = [fields["labels"]] if fields.get("labels") else []
    return decode_entry((*(fields.get(name) for name in STATE_SCHEMA.names), *labels), label_count)


def fields_of(entry: SessionState) -> dict[str, Any]:
    """Write the fields that `decode_fields` reads."""
    fields, labels = split_labels(encode_entry(entry))
    return dict(zip(STATE_SCHEMA.names, fields, strict=True)) | ({} if labels is None else {"labels": labels})


def decode_entries(stored: Iterable[StoredEntry], label_count: int = 0) -> dict[SessionId, SessionState]:
    """Read a device's entries by session id.

    Raises `ValueError` for an unknown status or reason, and for too many fields.
    """
    if not label_count:
        return {session_id: decode_entry((*value, *_NULLS[len(value) :])) for session_id, *value in stored}
    decoded = {}
    for session_id, *value in stored:
        fields, labels = split_labels(value)
        filled = (*fields, *_NULLS[len(fields) :], *([] if labels is None else [labels]))
        decoded[session_id] = decode_entry(filled, label_count)
    return decoded


def encode_entries(entries: Mapping[SessionId, SessionState | None]) -> dict[SessionId, StateValue | None]:
    """Write a device's entries by session id; None, an entry that was forgotten, stays None."""
    return {session_id: None if entry is None else encode_entry(entry) for session_id, entry in entries.items()}


def has_nothing_over(stored: Iterable[StoredEntry], expiry: Expiry, first_due_ms: int) -> bool:
    """Return whether a timer leaves all of a device's entries as they are: its live sessions can only beat.

    Most devices are in this state, so the check does not decode the entries. It returns False too for a live session
    that was resumed since the last firing (`Firing.first_due_ms`), and for an entry that `decode_entries` refuses.
    """
    for entry in stored:
        if entry[_STATUS] in LIVE_STATUSES:
            if expiry.heard_by_ms is not None:
                if not _is_heard(entry, expiry.heard_by_ms, first_due_ms):
                    return False
            elif entry[_OPENED] <= expiry.opened_by_ms:
                return False
        elif entry[_STATUS] not in _STATUSES_THAT_END or entry[_SINCE] <= expiry.remembered_by_ms:
            return False
    return True


def _is_heard(live: StoredEntry, heard_by_ms: int, first_due_ms: int) -> bool:
    """Whether a live session has signs, recent ones, and was not resumed since the last firing."""
    fields, _ = split_labels(live)
    if len(fields) <= _SINCE or fields[_SINCE] <= heard_by_ms:
        return False
    return len(fields) <= _PLACE or fields[_PLACE] is None or fields[_PLACE] < first_due_ms


def live_sessions(devices: StoredDevices, *, has_signs: bool = False) -> dict[str, list[Any]]:
    """Return the live sessions of devices, column by column (`LIVE_COLUMNS`).

    `has_signs` tells whether all of them have signs of life, as after `has_nothing_over` with an inactivity timeout:
    then they have `last_active_ms` too.
    """
    live = [
        (device_id, entry)
        for device_id, stored in devices.items()
        for entry in stored
        if entry[_STATUS] in LIVE_STATUSES
    ]
    fields = _LIVE_FIELDS | ({"last_active_ms": _LAST_ACTIVE} if has_signs else {})
    columns = {name: [entry[at] for _, entry in live] for name, at in fields.items()}
    return {"device_id": [device_id for device_id, _ in live], **columns}
