"""Changes as the operator emits them, the sink that appends them, and the rows of `sessions` that a MERGE makes."""

import json
import random
from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession

from sessionization.core.events import Change, ChangeKind, EndReason, Platform
from sessionization.spark.operator.output_rows import OUTPUT_SCHEMA
from sessionization.spark.output.sinks import ChangesSink, SinkContext, to_session_changes
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSIONS
from tests.support.reference_sessions import session_rows

NOW_MS = 1_763_726_400_000
T = 1_700_000_000_000


def a_change(**changes: object) -> tuple:
    values = dict.fromkeys(OUTPUT_SCHEMA.names) | {
        "device_id": "d1", "session_id": 1, "platform": "pc", "change": "started", "revision": 0, "duration_ms": 0,
        "started_ms": NOW_MS, "event_ms": NOW_MS, "ingested_ms": NOW_MS, "processed_ms": NOW_MS, "events": 1,
        "duplicate_start": 0, "duplicate_end": 0, "evicted": 0,
    }  # fmt: skip
    return tuple((values | changes).values())


def changes_frame(
    spark: SparkSession, changes: Iterable[tuple | list], labels: Sequence[str] = (), *, has_activity: bool = False
) -> DataFrame:
    """Rows of the operator, in one partition, in the columns of `session_changes` with these label columns."""
    rows = spark.createDataFrame(list(changes), OUTPUT_SCHEMA).coalesce(1)
    return to_session_changes(rows, labels, has_activity=has_activity)


def changes_sink(location: TableLocation, reports: list, writer: str = "writer") -> ChangesSink:
    return ChangesSink(SinkContext("sessionize", location, writer, listeners=(reports.append,)))


def random_changes(seed: int, count: int, at_ms: int = T) -> list[tuple[str, Change]]:
    """Changes of few sessions just after `at_ms`, with ties, conflicts and nulls in what decides the order."""
    rng = random.Random(seed)
    changes = []
    for _ in range(count):
        started_ms = at_ms + rng.randrange(3) * 1_000
        reason = rng.choice([None, *EndReason])
        ended_ms = None if reason is None else at_ms + rng.randrange(4) * 1_000
        is_orphan = reason is EndReason.ORPHANED
        change = Change(
            session_id=rng.randrange(8),
            account_id=rng.choice([None, "ann", "bob", "😀", "\uffff"]),
            platform=rng.choice(list(Platform)),
            kind=ChangeKind.ENDED
            if reason
            else rng.choice([ChangeKind.STARTED, ChangeKind.STARTED, ChangeKind.RESUMED]),
            processed_ms=at_ms + rng.randrange(10),
            started_ms=None if is_orphan else started_ms,
            end_reason=reason,
            revision=rng.randrange(2),
            ended_ms=ended_ms,
            foreground_s=rng.choice([None, 1, 2]) if reason else None,
            labels=(rng.choice([None, "chess", "go"]), rng.choice([None, "DE"])),
        )
        changes.append((f"d{rng.randrange(3)}", change))
    return changes


def frame(
    spark: SparkSession, changes: list[tuple[str, Change]], labels: Sequence[str] = (), *, has_activity: bool = False
) -> DataFrame:
    """The changes in the columns of `session_changes` with these label columns."""
    rows = []
    for device_id, change in changes:
        in_json = json.dumps(change.labels) if change.labels else None
        row = change._asdict() | {"device_id": device_id, "change": change.kind, "labels": in_json}
        values = map(row.get, OUTPUT_SCHEMA.names)
        rows.append([str(value) if isinstance(value, str) else value for value in values])
    return changes_frame(spark, rows, labels, has_activity=has_activity)


def session_values(sessions: DataFrame) -> dict:
    """What the rows show, the label columns as a tuple, by device and session; each session has one row."""
    labels = [f"`{name}`" for name in sessions.columns if name not in SESSIONS.column_names]
    rows = sessions.selectExpr(
        "device_id", "session_id", "account_id", "platform", "status", "unix_millis(started_at)",
        "unix_millis(ended_at)", "duration_ms", "foreground_s", "end_reason", "revision", "unix_millis(updated_at)",
        *labels,
    ).collect()  # fmt: skip
    values = {(row[0], row[1]): (*row[2:12], tuple(row[12:])) for row in rows}
    assert len(values) == len(rows)
    return values


def expected_values(changes: list[tuple[str, Change]]) -> dict:
    return {
        key: (
            row.account_id, row.platform, row.status, row.started_ms, row.ended_ms, row.duration_ms, row.foreground_s,
            row.end_reason, row.revision, row.updated_ms, row.labels,
        )
        for key, row in session_rows(changes).items()
    }  # fmt: skip
