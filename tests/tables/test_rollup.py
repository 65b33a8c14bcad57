"""`sessions` depends neither on the order of the changes, nor on changes that are merged twice."""

import random
from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from sessionization.core.events import Change, ChangeKind, EndReason, Platform
from sessionization.spark.tables.creation import create_tables
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import LATE_ENDS_PROPERTY, SESSION_CHANGES, SESSIONS
from tests.core.reference import session_rows
from tests.tables.warehouse import empty_tables, merge_changes

pytestmark = pytest.mark.spark

T = 1_700_000_000_000


def random_changes(seed: int, count: int) -> list[tuple[str, Change]]:
    """Changes of few sessions, with ties, conflicts and nulls in every column that decides the order."""
    rng = random.Random(seed)
    changes = []
    for _ in range(count):
        started_ms = T + rng.randrange(3) * 1_000
        reason = rng.choice([None, *EndReason])
        ended_ms = None if reason is None else T + rng.randrange(4) * 1_000
        is_orphan = reason is EndReason.ORPHANED
        change = Change(
            session_id=rng.randrange(8),
            account_id=rng.choice([None, "ann", "bob", "😀", "\uffff"]),
            platform=rng.choice(list(Platform)),
            kind=ChangeKind.STARTED if reason is None else ChangeKind.ENDED,
            processed_ms=T + rng.randrange(10),
            started_ms=None if is_orphan else started_ms,
            end_reason=reason,
            revision=rng.randrange(2),
            ended_ms=ended_ms,
            foreground_s=rng.choice([None, 1, 2]) if reason else None,
        )
        changes.append((f"d{rng.randrange(3)}", change))
    return changes


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


def session_values(spark: SparkSession, location: TableLocation) -> dict:
    rows = (
        location.read(spark.read, SESSIONS)
        .selectExpr(
            "device_id", "session_id", "account_id", "platform", "status", "unix_millis(started_at)",
            "unix_millis(ended_at)", "duration_ms", "foreground_s", "end_reason", "revision", "unix_millis(updated_at)",
        )
        .collect()
    )  # fmt: skip
    return {(row[0], row[1]): tuple(row[2:]) for row in rows}


def expected_values(changes: list[tuple[str, Change]]) -> dict:
    return {
        key: (
            row.account_id, row.platform, row.status, row.started_ms, row.ended_ms, row.duration_ms, row.foreground_s,
            row.end_reason, row.revision, row.updated_ms,
        )
        for key, row in session_rows(changes).items()
    }  # fmt: skip


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_any_order_and_any_repetition_gives_the_reference_table(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    location = TableLocation(tmp_path)
    empty_tables(spark, location, owner="test")
    sessions = location.delta_table(spark, SESSIONS)
    changes = random_changes(seed, 120)
    random.Random(seed).shuffle(changes)
    for piece in (changes[:40], changes[20:90], changes[85:], changes[:50]):
        merge_changes(sessions, frame(spark, piece))
    assert session_values(spark, location) == expected_values(changes)


def test_an_end_after_its_session_was_forgotten_is_reported_in_every_merge_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One session per order: each merge brings the next change of every session, the last brings the first again."""
    location = TableLocation(tmp_path)
    empty_tables(spark, location, owner="test")
    sessions = location.delta_table(spark, SESSIONS)
    start = Change(0, "ann", Platform.PC, ChangeKind.STARTED, T, T)
    end = start._replace(kind=ChangeKind.ENDED, account_id=None)
    timed_out = end._replace(
        processed_ms=T + 9, started_ms=T, end_reason=EndReason.TIMED_OUT, ended_ms=T + 9_000, revision=1
    )
    came_late = end._replace(processed_ms=T + 8, started_ms=None, end_reason=EndReason.ORPHANED, ended_ms=T + 3_000)
    in_time = end._replace(started_ms=T, end_reason=EndReason.REPORTED, ended_ms=T + 2_000)
    without_start = [(came_late,)]
    orders = [
        *without_start,
        *permutations((start, came_late)),
        *permutations((start, timed_out, came_late)),
        *permutations((start, timed_out, came_late, in_time)),
    ]
    merges = [
        [("d", order[step]._replace(session_id=number)) for number, order in enumerate(orders) if step < len(order)]
        for step in (0, 1, 2, 3, 0)
    ]
    for changes in merges:
        merge_changes(sessions, frame(spark, changes))
    found = session_values(spark, location)
    assert found == expected_values([change for changes in merges for change in changes])
    assert [found["d", number][7] for number in range(len(orders))] == ["orphaned", *["reported"] * (len(orders) - 1)]
    ended_ms = {len(order): found["d", number][4] for number, order in enumerate(orders)}
    assert ended_ms == {1: T + 3_000, 2: T + 3_000, 3: T + 3_000, 4: T + 2_000}, "an End that came in time is greater"


def test_rows_of_the_previous_version_are_repaired_at_the_start_and_then_merged_as_usual(
    spark: SparkSession, tmp_path: Path
) -> None:
    location = TableLocation(tmp_path)
    empty_tables(spark, location, owner="test")
    sessions = location.delta_table(spark, SESSIONS)
    start = Change(1, None, Platform.PC, ChangeKind.STARTED, T, T)
    end = start._replace(kind=ChangeKind.ENDED)
    late = [
        ("d", end._replace(session_id=number, started_ms=None, end_reason=EndReason.ORPHANED, ended_ms=T + 3_000))
        for number in (1, 2, 3)
    ]
    changes = [("d", start), ("d", start._replace(session_id=2)), *late]
    merge_changes(sessions, frame(spark, changes))
    # Make the rows as the previous version wrote them.
    sessions.update(set={"end_reason": "_shown_end.end_reason"})
    spark.sql(f"ALTER TABLE {location.sql_name('sessions')} UNSET TBLPROPERTIES ('{LATE_ENDS_PROPERTY[0]}')")
    assert {row[7] for row in session_values(spark, location).values()} == {"orphaned"}

    create_tables(spark, location, owner="test", may_create=False)
    assert session_values(spark, location) == expected_values(changes)
    repaired_version = sessions.history(1).first().version
    create_tables(spark, location, owner="test", may_create=False)
    assert sessions.history(1).first().version == repaired_version, "nothing is left to mend"

    in_time = ("d", end._replace(end_reason=EndReason.REPORTED, ended_ms=T + 2_000))
    merge_changes(sessions, frame(spark, [in_time]))
    assert session_values(spark, location) == expected_values([*changes, in_time])


def test_a_merge_that_changes_nothing_rewrites_nothing(spark: SparkSession, tmp_path: Path) -> None:
    location = TableLocation(tmp_path)
    empty_tables(spark, location, owner="test")
    sessions = location.delta_table(spark, SESSIONS)
    changes = frame(spark, random_changes(3, 20))
    merge_changes(sessions, changes)
    merged = sessions.history(1).first()
    assert int(merged.operationMetrics["numTargetRowsInserted"]) > 0
    merge_changes(sessions, changes)
    repeated = sessions.history(1).first()
    written = sum(int(repeated.operationMetrics[f"numTargetRows{kind}"]) for kind in ("Updated", "Inserted", "Deleted"))
    assert repeated.version == merged.version or written == 0
