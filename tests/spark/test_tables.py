"""Tables: which checkpoint may write them, which rows they refuse, and the views over them."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.errors import CheckpointError
from sessionization.spark.operator.codec import OUTPUT_SCHEMA
from sessionization.spark.output.sinks import ArchiveSink, ChangesSink, StateSize
from sessionization.spark.tables.creation import _create, create_tables
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import RAW_EVENTS, SESSION_CHANGES, STREAM_PROGRESS, TABLES
from sessionization.spark.tables.views import VIEWS, create_views

NOW_MS = 1_763_726_400_000


@pytest.fixture(scope="module")
def location(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> TableLocation:
    location = TableLocation(tmp_path_factory.mktemp("warehouse with spaces"))
    create_tables(spark, location, owner="ours", may_create=True)
    return location


def test_tables_of_another_checkpoint_are_refused(spark: SparkSession, location: TableLocation) -> None:
    with pytest.raises(CheckpointError, match="written by another checkpoint"):
        create_tables(spark, location, owner="theirs", may_create=True)


def test_of_two_starts_one_creates_every_table_and_the_other_none(spark: SparkSession, tmp_path: Path) -> None:
    location = TableLocation(tmp_path)
    first, *others = TABLES
    _create(spark, location, first, "ours")  # the catalog decides which start is first
    with pytest.raises(CheckpointError, match="written by another checkpoint"):
        create_tables(spark, location, owner="theirs", may_create=True)
    assert not any(location.exists(spark, table) for table in others)


def test_missing_tables_of_a_used_checkpoint_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="session_changes is missing"):
        create_tables(spark, TableLocation(tmp_path), owner="ours", may_create=False)


def test_columns_have_comments_and_constraints_are_on_the_tables(spark: SparkSession, location: TableLocation) -> None:
    for table in TABLES:
        described = spark.sql(f"DESCRIBE TABLE {location.sql_name(table.name)}").collect()
        comments = {row.col_name: row.comment for row in described}
        assert all(comments[column.name] == column.comment for column in table.columns)
        properties = location.delta_table(spark, table).detail().first().properties
        assert {f"delta.constraints.{name}" for name, _ in table.constraints} <= properties.keys()


def a_change(**changes: object) -> tuple:
    values = dict.fromkeys(OUTPUT_SCHEMA.names) | {
        "device_id": "d1", "session_id": 1, "platform": "pc", "change": "started", "revision": 0, "duration_ms": 0,
        "started_ms": NOW_MS, "event_ms": NOW_MS, "ingested_ms": NOW_MS, "processed_ms": NOW_MS, "events": 1,
        "duplicate_start": 0, "duplicate_end": 0, "evicted": 0,
    }  # fmt: skip
    return tuple((values | changes).values())


def changes_sink(location: TableLocation, reports: list, writer: str = "writer") -> ChangesSink:
    return ChangesSink(location, "sessionize", writer, lambda _: None, (reports.append,), StateSize)


def test_a_repeated_micro_batch_is_written_once(spark: SparkSession, location: TableLocation) -> None:
    reports: list = []
    batch = spark.createDataFrame([a_change(), a_change(session_id=2)], OUTPUT_SCHEMA)
    for _ in range(2):
        changes_sink(location, reports)(batch, 5)
    assert location.read(spark.read, SESSION_CHANGES).count() == 2
    assert [(report.batch_id, report.rows_in, report.started) for report in reports] == [(5, 2, 2)] * 2


def test_ends_are_counted_by_reason_and_rows_by_partition(spark: SparkSession, location: TableLocation) -> None:
    reports: list = []
    end = {"change": "ended", "ended_ms": NOW_MS}
    reasons = ["reported", "orphaned", "orphaned", "timed_out"]
    rows = [a_change(), *(a_change(**end, end_reason=reason) for reason in reasons)]
    two_partitions = spark.sparkContext.parallelize(rows, 2)
    changes_sink(location, reports, "the reasons")(spark.createDataFrame(two_partitions, OUTPUT_SCHEMA), 5)
    detail = reports[0].detail
    assert detail.ends == {"reported": 1, "superseded": 0, "timed_out": 1, "orphaned": 2}
    assert (detail.rows_out, detail.largest_partition) == (5, 3)


def test_a_table_names_the_newest_micro_batch_of_each_writer(spark: SparkSession, location: TableLocation) -> None:
    batch = spark.createDataFrame([a_change(session_id=3)], OUTPUT_SCHEMA)
    for batch_id in (9, 10):
        changes_sink(location, [], "its writer")(batch, batch_id)
    location.delta_table(spark, SESSION_CHANGES).optimize().executeCompaction()
    assert location.newest_appended_batch(spark, SESSION_CHANGES, "its writer") == 10
    assert location.newest_appended_batch(spark, SESSION_CHANGES, "its") == -1
    assert location.newest_appended_batch(spark, STREAM_PROGRESS, "its writer") == -1


def test_a_repeated_micro_batch_of_messages_is_written_once(spark: SparkSession, location: TableLocation) -> None:
    batch = spark.sql(
        "SELECT 'pc_sessions' AS stream, CAST(NULL AS int) AS partition, CAST(NULL AS bigint) AS offset, 'f' AS file,"
        " current_timestamp() AS ingested_at, X'FF' AS value, current_date() AS ingest_date, 'malformed_json' AS reason"
    )
    for _ in range(2):
        ArchiveSink(location, "archive", "writer", lambda _: None, ())(batch, 5)
    assert [bytes(row.value) for row in location.read(spark.read, RAW_EVENTS).collect()] == [b"\xff"]


def test_a_row_that_breaks_a_constraint_stops_the_micro_batch_and_names_the_constraint(
    spark: SparkSession, location: TableLocation
) -> None:
    batch = spark.createDataFrame([a_change(change="ended")], OUTPUT_SCHEMA)
    with pytest.raises(Exception, match="reason_when_ended"):
        changes_sink(location, [])(batch, 6)


def test_every_view_can_be_read(spark: SparkSession, location: TableLocation) -> None:
    create_views(spark, location)
    for view in VIEWS:
        spark.table(view.name).collect()


def test_a_table_of_an_earlier_version_gets_its_missing_columns(spark: SparkSession, tmp_path: Path) -> None:
    location, added = TableLocation(tmp_path / "ware house"), STREAM_PROGRESS.columns[-1]
    earlier_table = replace(STREAM_PROGRESS, columns=STREAM_PROGRESS.columns[:-1])
    _create(spark, location, earlier_table, "ours")
    values = {"query": "archive", "batch_id": 1, "processed_at": datetime.now(UTC), "rows_in": 0}
    location.append(
        spark.createDataFrame([tuple(map(values.get, earlier_table.column_names))], earlier_table.schema), earlier_table
    )
    for _start in range(2):
        create_tables(spark, location, owner="ours", may_create=True)
    row = tuple(map((values | {added.name: 7}).get, STREAM_PROGRESS.column_names))
    location.append(spark.createDataFrame([row], STREAM_PROGRESS.schema), STREAM_PROGRESS)
    location.append(
        spark.createDataFrame([tuple(map(values.get, earlier_table.column_names))], earlier_table.schema), earlier_table
    )
    found = location.read(spark.read, STREAM_PROGRESS)
    assert found.columns == STREAM_PROGRESS.column_names
    assert sorted(found.select(added.name).collect(), key=str) == [(7,), (None,), (None,)]
