"""Changes as the MERGE takes them, and the rows of `sessions` that it makes."""

from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from sessionization.core.events import Change
from sessionization.spark.tables.schemas import SESSION_CHANGES
from tests.support.reference import session_rows

T = 1_700_000_000_000


def frame(spark: SparkSession, changes: list[tuple[str, Change]]) -> DataFrame:
    def row(device_id: str, change: Change) -> dict:
        def at(ms: int | None) -> datetime | None:
            return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)

        return {
            "device_id": device_id,
            "session_id": change.session_id,
            "account_id": change.account_id,
            "platform": change.platform.value,
            "change": change.kind.value,
            "end_reason": change.end_reason and change.end_reason.value,
            "revision": change.revision,
            "started_at": at(change.started_ms),
            "ended_at": at(change.ended_ms),
            "foreground_s": change.foreground_s,
            "processed_at": at(change.processed_ms),
        }

    rows = [row(*change) for change in changes]
    columns = [field for field in SESSION_CHANGES.schema if field.name in rows[0]]
    return spark.createDataFrame(
        [tuple(row[field.name] for field in columns) for row in rows],
        ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in columns),
    ).coalesce(1)


def session_values(sessions: DataFrame) -> dict:
    """What the rows show, by device and session; each session has one row."""
    rows = sessions.selectExpr(
        "device_id", "session_id", "account_id", "platform", "status", "unix_millis(started_at)",
        "unix_millis(ended_at)", "duration_ms", "foreground_s", "end_reason", "revision", "unix_millis(updated_at)",
    ).collect()  # fmt: skip
    values = {(row[0], row[1]): tuple(row[2:]) for row in rows}
    assert len(values) == len(rows)
    return values


def expected_values(changes: list[tuple[str, Change]]) -> dict:
    return {
        key: (
            row.account_id, row.platform, row.status, row.started_ms, row.ended_ms, row.duration_ms, row.foreground_s,
            row.end_reason, row.revision, row.updated_ms,
        )
        for key, row in session_rows(changes).items()
    }  # fmt: skip
