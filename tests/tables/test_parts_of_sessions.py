"""`sessions` in parts: the live rows and a part for each day. A merge finds its rows and reads no older part."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionization.core.events import Change, ChangeKind, EndReason, Platform
from sessionization.durations import DAY_MS, HOUR_MS
from sessionization.spark.tables import rollup, upgrade
from sessionization.spark.tables.creation import create_table, create_tables
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import (
    PART_CONSTRAINT,
    RETENTION_PROPERTIES,
    SESSIONS,
    TABLES,
    Table,
    retention_ms_of,
)
from tests.tables.test_rollup import expected_values, frame, session_values
from tests.tables.warehouse import LOOKBACK_MS, empty_tables, merge_changes
from tests.whole_job.delta import live_files

pytestmark = pytest.mark.spark

NOON = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp() * 1_000)
START = Change(1, "ann", Platform.PC, ChangeKind.STARTED, NOON, NOON)
END = START._replace(
    kind=ChangeKind.ENDED, processed_ms=NOON + HOUR_MS, ended_ms=NOON + HOUR_MS, end_reason=EndReason.REPORTED
)
ORPHAN = END._replace(started_ms=None, end_reason=EndReason.ORPHANED)


@pytest.fixture
def location(spark: SparkSession, tmp_path: Path) -> TableLocation:
    location = TableLocation(tmp_path)
    empty_tables(spark, location, owner="test")
    return location


def merge(spark: SparkSession, location: TableLocation, *changes: Change) -> None:
    merge_changes(location.delta_table(spark, SESSIONS), frame(spark, [("d", change) for change in changes]))


def parts(spark: SparkSession, location: TableLocation) -> list[tuple[int, str]]:
    rows = location.read(spark.read, SESSIONS).select("session_id", "_part").collect()
    return sorted((row.session_id, row._part) for row in rows)


def later(change: Change, by_ms: int) -> Change:
    """The change as the state takes its message again after `by_ms`, when the session was forgotten."""
    return change._replace(processed_ms=change.processed_ms + by_ms)


def sent_again(seed: int) -> list[list[Change]]:
    """Merges over a week: sessions begin and end, and their messages come late, twice, or in the wrong order."""
    rng = random.Random(seed)
    merges: list[list[Change]] = [[] for _ in range(5)]
    for session_id in range(60):
        started_ms = NOON - rng.randrange(3 * DAY_MS)
        start = START._replace(session_id=session_id, started_ms=started_ms, processed_ms=NOON)
        end = start._replace(
            kind=ChangeKind.ENDED,
            end_reason=rng.choice([EndReason.REPORTED, EndReason.TIMED_OUT, EndReason.SUPERSEDED]),
            ended_ms=started_ms + rng.randrange(12 * HOUR_MS),
        )
        orphan = end._replace(started_ms=None, end_reason=EndReason.ORPHANED, ended_ms=started_ms + 12 * HOUR_MS)
        other_start = start._replace(started_ms=started_ms + rng.choice([-1, 1]) * rng.randrange(2 * DAY_MS))
        sent = rng.sample([start, end, orphan, other_start], rng.randint(1, 4))
        for position, change in enumerate(sent):
            merges[position].append(later(change, position * DAY_MS))
        merges[-1].append(later(rng.choice(sent), 7 * DAY_MS))
    return merges


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_messages_sent_again_after_days_find_their_row(spark: SparkSession, location: TableLocation, seed: int) -> None:
    merges = [changes for changes in sent_again(seed) if changes]
    for changes in merges:
        merge(spark, location, *changes)
    assert session_values(spark, location) == expected_values([("d", change) for each in merges for change in each])
    keys = location.read(spark.read, SESSIONS).groupBy("device_id", "session_id").count()
    assert keys.where("count > 1").isEmpty()


def test_a_row_is_with_the_live_ones_and_then_with_the_day_of_its_start(
    spark: SparkSession, location: TableLocation
) -> None:
    merge(spark, location, START, START._replace(session_id=2, started_ms=NOON - DAY_MS), ORPHAN._replace(session_id=3))
    assert parts(spark, location) == [(1, "live"), (2, "live"), (3, "2026-11-20")]
    merge(spark, location, END, END._replace(session_id=2, started_ms=NOON - DAY_MS))
    assert parts(spark, location) == [(1, "2026-11-20"), (2, "2026-11-19"), (3, "2026-11-20")]
    merge(spark, location, START._replace(session_id=3, started_ms=NOON - DAY_MS))
    assert parts(spark, location) == [(1, "2026-11-20"), (2, "2026-11-19"), (3, "2026-11-19")]


def test_a_merge_reads_no_part_that_is_older_than_a_session_can_be(
    spark: SparkSession, location: TableLocation, tmp_path: Path
) -> None:
    """The data files of older parts are removed, so reading them would fail."""
    merge(spark, location, START, END)
    for file in live_files(tmp_path / SESSIONS.name):
        (tmp_path / SESSIONS.name / file).unlink()
    after_ms = LOOKBACK_MS + 2 * DAY_MS
    new = [
        change._replace(
            session_id=2, started_ms=NOON + after_ms, ended_ms=change.ended_ms and change.ended_ms + after_ms
        )
        for change in (START, END)
    ]
    for change in new:
        merge(spark, location, later(change, after_ms))
    found = location.read(spark.read, SESSIONS).where("_part > '2026-11-20'").select("session_id", "status").collect()
    assert [tuple(row) for row in found] == [(2, "ended")]


def test_an_id_that_a_device_uses_again_after_longer_than_the_lookback_is_another_session(
    spark: SparkSession, location: TableLocation
) -> None:
    merge(spark, location, START, END)
    again_ms = LOOKBACK_MS + 2 * DAY_MS
    merge(spark, location, later(START._replace(started_ms=NOON + again_ms), again_ms))
    again = (datetime(2026, 11, 20, tzinfo=UTC) + timedelta(milliseconds=again_ms)).date()
    assert again.isoformat() > "2026-11-28"
    assert parts(spark, location) == [(1, "2026-11-20"), (1, "live")]


def test_a_table_of_an_earlier_version_is_partitioned_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = TableLocation(tmp_path)
    for table in TABLES:
        create_table(spark, location, _earlier_version() if table is SESSIONS else table, "test")
    written = TableLocation(tmp_path / "written")
    empty_tables(spark, written, owner="test")
    changes = [change for changes in sent_again(3) for change in changes]
    merge(spark, written, *changes)
    rows = written.read(spark.read, SESSIONS).drop("_part")
    location.append(rows, SESSIONS)
    lines: list[str] = []

    # The first start is cut off after the first of its two commits.
    with monkeypatch.context() as patch:
        patch.setattr(upgrade, "PART_CONSTRAINT", (PART_CONSTRAINT[0], "status = 'unknown'"))
        with pytest.raises(PySparkException, match="violate"):
            create_tables(spark, location, owner="test", may_create=False, say=lines.append)
    for _start in range(2):
        create_tables(spark, location, owner="test", may_create=False, say=lines.append)
    assert len(lines) == 1
    assert session_values(spark, location) == expected_values([("d", change) for change in changes])
    assert parts(spark, location) == parts(spark, written)
    detail = location.delta_table(spark, SESSIONS).detail().first()
    assert detail.partitionColumns == ["_part"]
    assert {f"delta.constraints.{name}" for name, _ in SESSIONS.constraints} <= detail.properties.keys()
    assert detail.description == SESSIONS.comment
    assert {retention_ms_of(detail.properties, key) for key in RETENTION_PROPERTIES} == {6 * HOUR_MS}

    with pytest.raises(Exception, match="part_of_status"):  # an earlier version would leave the part out
        location.append(rows.limit(1).withColumn("_part", F.lit(None).cast("string")), SESSIONS)


@pytest.mark.parametrize(
    ("days", "hours_afterwards"), [((7, 7), [6, 6]), ((9, 7), [9 * 24, 6]), ((7, 3), [7 * 24, 3 * 24])]
)
def test_a_retention_that_maintain_has_set_stays(
    spark: SparkSession, tmp_path: Path, days: tuple[int, int], hours_afterwards: list[int]
) -> None:
    location = TableLocation(tmp_path)
    empty_tables(spark, location, owner="test")
    found = {key: f"interval {count} days" for key, count in zip(RETENTION_PROPERTIES, days, strict=True)}
    spark.sql(location.set_properties_sql(SESSIONS, found))
    upgrade.upgrade_tables(spark, location, print, (SESSIONS,))
    properties = location.properties(spark, SESSIONS)
    assert [retention_ms_of(properties, key) for key in RETENTION_PROPERTIES] == [
        hours * HOUR_MS for hours in hours_afterwards
    ]


def _earlier_version() -> Table:
    return replace(
        SESSIONS,
        columns=tuple(column for column in SESSIONS.columns if column.name != "_part"),
        constraints=tuple(constraint for constraint in SESSIONS.constraints if constraint != PART_CONSTRAINT),
        partitioned_by=(),
        properties=(*SESSIONS.properties[:2], *((key, "interval 7 days") for key in RETENTION_PROPERTIES)),
    )


@pytest.mark.parametrize(
    ("oldest_ms", "lookback_ms", "since"),
    [
        (NOON, 0, "2026-11-19"),
        (NOON, 1, "2026-11-18"),
        (NOON, LOOKBACK_MS, "2026-11-11"),
        (0, 0, "1969-12-31"),
        (-1, 0, "1969-12-30"),
        (NOON, 10**15, "0001-01-01"),
    ],
)
def test_the_days_that_a_merge_searches(oldest_ms: int, lookback_ms: int, since: str) -> None:
    assert rollup.search_since(oldest_ms, lookback_ms) == since
