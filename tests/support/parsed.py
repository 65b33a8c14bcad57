"""What the parser and the second implementation make of a message, in one form."""

from dataclasses import asdict
from typing import Any

from pyspark.sql import Row

from sessionization.core.events import Activity, Start
from sessionization.message_limits import SKIPPED
from sessionization.spark.input.parse import EVENT_COLUMNS, LABELS


def outcome(row: Row) -> Any:
    """A row of the parser: its event by column, the reason of its quarantine, or None where it is skipped."""
    if row.reason is not None:
        return None if row.reason == SKIPPED else row.reason
    return {name: row[name] for name in EVENT_COLUMNS} | {LABELS: row.asDict().get(LABELS, [])}


def read_outcome(found: Any) -> Any:
    """The same of what `wire.read` returns."""
    if not isinstance(found, tuple):
        return found
    device_id, event = found
    is_start = None if isinstance(event, Activity) else isinstance(event, Start)
    fields = {"foreground_s": None} | asdict(event)
    return {
        "device_id": device_id,
        "session_id": fields["session_id"],
        "is_start": is_start,
        "event_ms": fields["at_ms"],
        "foreground_s": fields["foreground_s"],
        "account_id": fields["account_id"],
        "platform": fields["platform"],
        "ingested_ms": fields["ingested_ms"],
        "labels": list(event.labels),
    }
