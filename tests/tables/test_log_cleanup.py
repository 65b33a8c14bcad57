"""The logs of tables in folders stay short, and a table stays readable, also for the rollup that is behind."""

import os
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.durations import MINUTE_MS
from sessionization.spark.checkpoint.backlog import first_unread_version
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.log_cleanup import FOLDER_LOG_RETENTION_MS, delete_old_log_entries
from sessionization.spark.tables.schemas import RAW_EVENTS, SESSION_CHANGES
from tests.support.delta import read_table

pytestmark = pytest.mark.spark

CLEANED = (SESSION_CHANGES, RAW_EVENTS)
COMMITS = 8
YOUNG = 6
"""The first version that is not older than the retention."""


@pytest.fixture(scope="module")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a checkpoint of the log every two commits; only the last entries are young."""
    folder = tmp_path_factory.mktemp("table")
    for version in range(COMMITS):
        rows = spark.range(1).withColumnRenamed("id", "number")
        if version == 0:
            rows.writeTo(f"delta.`{folder}`").using("delta").tableProperty("delta.checkpointInterval", "2").create()
        else:
            rows.write.format("delta").mode("append").save(str(folder))
    youngest_ms = wall_clock_ms() - FOLDER_LOG_RETENTION_MS - 2 * MINUTE_MS
    for file in (folder / "_delta_log").iterdir():
        if file.name[:20].isdigit() and (version := int(file.name[:20])) < YOUNG:
            os.utime(file, ns=((youngest_ms - (YOUNG - version) * 5 * MINUTE_MS) * 1_000_000,) * 2)
    return folder


@pytest.fixture
def location(template: Path, tmp_path: Path) -> TableLocation:
    for table in CLEANED:
        shutil.copytree(template, tmp_path / table.name)
    return TableLocation(tmp_path)


def oldest_entries(location: TableLocation) -> list[int]:
    """The first version in the log of each table."""
    assert location.warehouse is not None
    logs = [location.warehouse / table.name / "_delta_log" for table in CLEANED]
    return [min(int(file.stem) for file in log.glob("*.json")) for log in logs]


def assert_whole(spark: SparkSession, location: TableLocation) -> None:
    """Check that Spark, and the reader that most tests use, find all rows."""
    assert location.warehouse is not None
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    first, second = (location.read(spark.read, table) for table in CLEANED)
    assert first.unionAll(second).count() == COMMITS * len(CLEANED)
    assert [len(read_table(location.warehouse / table.name)) for table in CLEANED] == [COMMITS] * len(CLEANED)


def test_old_entries_are_deleted_up_to_a_checkpoint(spark: SparkSession, location: TableLocation) -> None:
    assert oldest_entries(location) == [0, 0]
    delete_old_log_entries(spark, location, CLEANED, first_unread=COMMITS + 1)
    assert set(oldest_entries(location)) <= {4, 5, 6}
    assert_whole(spark, location)


def test_what_the_rollup_may_still_read_stays(spark: SparkSession, location: TableLocation) -> None:
    delete_old_log_entries(spark, location, CLEANED, first_unread=3)
    of_changes, of_messages = oldest_entries(location)
    assert (of_changes, of_messages > 3) == (2, True)
    delete_old_log_entries(spark, location, CLEANED, first_unread=None)
    assert oldest_entries(location)[0] == 2
    assert_whole(spark, location)


def test_a_log_that_cannot_be_cleaned_up_ends_no_query(spark: SparkSession, tmp_path: Path) -> None:
    delete_old_log_entries(spark, TableLocation(tmp_path / "nowhere"), [RAW_EVENTS], first_unread=None)
    delete_old_log_entries(spark, TableLocation(catalog="main", schema="games"), [RAW_EVENTS], first_unread=None)


@pytest.mark.parametrize(
    ("committed", "in_snapshot", "expected"),
    [(None, "false", None), (0, "true", None), (0, "false", 40), (1, "false", 41)],
)
def test_the_rollup_has_read_what_it_has_committed(
    tmp_path: Path, committed: int | None, in_snapshot: str, expected: int | None
) -> None:
    for log in ("offsets", "commits"):
        (tmp_path / "rollup" / log).mkdir(parents=True)
    for batch_id in range(3):
        position = f'{{"reservoirVersion":{40 + batch_id},"isStartingVersion":{in_snapshot}}}'
        (tmp_path / "rollup" / "offsets" / str(batch_id)).write_text(f'v1\n{{"batchTimestampMs":1}}\n{position}\n')
        if committed is not None and batch_id <= committed:
            (tmp_path / "rollup" / "commits" / str(batch_id)).write_text("v1\n{}")
    assert first_unread_version(tmp_path) == expected
