"""Changes as the MERGE takes them, and the rows of `sessions` that it makes."""

from pyspark.sql import DataFrame, SparkSession

from sessionization.core.events import Change
from sessionization.spark.operator.output_rows import OUTPUT_SCHEMA
from tests.support.changes import changes_frame
from tests.support.reference import session_rows

T = 1_700_000_000_000


def frame(spark: SparkSession, changes: list[tuple[str, Change]]) -> DataFrame:
    """The changes in the columns of `session_changes`."""
    rows = []
    for device_id, change in changes:
        row = change._asdict() | {"device_id": device_id, "change": change.kind}
        values = map(row.get, OUTPUT_SCHEMA.names)
        rows.append([str(value) if isinstance(value, str) else value for value in values])
    return changes_frame(spark, rows)


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
