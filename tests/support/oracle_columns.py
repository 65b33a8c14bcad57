"""The columns that the oracle computes, and how they show changes and entries."""

from datetime import UTC, datetime
from typing import Any

from sessionization.core.events import Change
from sessionization.core.session_state import Closed, Live, PendingEnd, SessionState, Signs

Row = tuple[Any, ...]

COLUMNS = {
    "session_changes": (
        "device_id", "session_id", "account_id", "platform", "change", "end_reason", "revision", "started_ms",
        "ended_ms", "duration_ms", "foreground_s", "beat", "missed_beats", "due_ms", "event_ms", "ingested_ms",
        "processed_ms", "change_date",
    ),
    "sessions": (
        "device_id", "session_id", "account_id", "platform", "status", "started_ms", "ended_ms", "duration_ms",
        "foreground_s", "end_reason", "revision", "updated_ms",
    ),
    "raw_events": ("stream", "partition", "offset", "file", "ingested_ms", "value", "ingest_date"),
    "quarantine": (
        "stream", "partition", "offset", "file", "ingested_ms", "value", "ingest_date", "reason", "value_bytes",
    ),
    "stream_progress": (
        "query", "batch_id", "rows_in", "started", "heartbeats", "ended", "duplicate_start", "duplicate_end", "evicted",
        "quarantined",
    ),
}  # fmt: skip
"""The columns that the oracle computes, times as milliseconds. The other columns of `stream_progress` are measured."""
ACTIVITY_COUNTS = ("activities", "duplicate_activity", "late_activity", "resumed", "implied_starts")
"""The columns of `stream_progress` of a job with an inactivity timeout."""


def change_row(device_id: str, change: Change, label_count: int = 0) -> Row:
    """A change in the columns of `session_changes`, and in those of its labels, which a heartbeat does not have."""
    return (
        device_id, change.session_id, change.account_id, change.platform, change.kind, change.end_reason,
        change.revision, change.started_ms, change.ended_ms, change.duration_ms, change.foreground_s, change.beat,
        change.missed_beats, change.due_ms, change.event_ms, change.ingested_ms, change.processed_ms,
        day(change.processed_ms), *(change.labels or (None,) * label_count),
    )  # fmt: skip


def day(at_ms: int) -> str:
    """The UTC date of an instant."""
    return datetime.fromtimestamp(at_ms // 1_000, UTC).date().isoformat()


def status_of(entry: SessionState) -> str:
    """The status of an entry as the operator stores it."""
    match entry:
        case Live(signs=Signs(is_implied=True)):
            return "implied_live"
        case Live():
            return "live"
        case Closed():
            return "implied_closed" if entry.is_implied else "closed"
        case PendingEnd():
            return "pending_end"
