"""What the sinks write of a micro-batch, once however often it is repeated, and what they report of it."""

import pytest
from pyspark.sql import SparkSession

from sessionization.spark.operator.output_rows import OUTPUT_SCHEMA
from sessionization.spark.output.sinks import ArchiveSink, SinkContext, newest_appended_batch
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import RAW_EVENTS, SESSION_CHANGES, STREAM_PROGRESS
from tests.support.changes import NOW_MS, a_change, changes_sink
from tests.support.warehouse import empty_tables

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def location(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> TableLocation:
    return empty_tables(spark, TableLocation(tmp_path_factory.mktemp("warehouse with spaces")), owner="ours")


def test_a_repeated_micro_batch_is_written_once(spark: SparkSession, location: TableLocation) -> None:
    reports: list = []
    batch = spark.createDataFrame([a_change(), a_change(session_id=2)], OUTPUT_SCHEMA)
    for _ in range(2):
        changes_sink(location, reports)(batch, 5)
    assert location.read(spark.read, SESSION_CHANGES).count() == 2
    assert [(report.batch_id, report.rows_in, report.started) for report in reports] == [(5, 2, 2)] * 2


def test_ends_are_counted_by_reason_and_the_table_names_the_newest_micro_batch(
    spark: SparkSession, location: TableLocation
) -> None:
    reports: list = []
    end = {"change": "ended", "ended_ms": NOW_MS}
    reasons = ["reported", "orphaned", "orphaned", "timed_out"]
    rows = [a_change(), *(a_change(**end, end_reason=reason) for reason in reasons)]
    changes_sink(location, reports, "its writer")(spark.createDataFrame(rows, OUTPUT_SCHEMA), 9)
    assert reports[0].ends == {"reported": 1, "superseded": 0, "timed_out": 1, "orphaned": 2}
    assert reports[0].rows_out == 5

    batch = spark.createDataFrame([a_change(session_id=3)], OUTPUT_SCHEMA)
    changes_sink(location, [], "its writer")(batch, 10)
    location.delta_table(spark, SESSION_CHANGES).optimize().executeCompaction()
    assert newest_appended_batch(location, spark, SESSION_CHANGES, "its writer") == 10
    assert newest_appended_batch(location, spark, SESSION_CHANGES, "its") == -1
    assert newest_appended_batch(location, spark, STREAM_PROGRESS, "its writer") == -1


def test_a_repeated_micro_batch_of_messages_is_written_once(spark: SparkSession, location: TableLocation) -> None:
    batch = spark.sql(
        "SELECT 'pc_sessions' AS stream, CAST(NULL AS int) AS partition, CAST(NULL AS bigint) AS offset, 'f' AS file,"
        " current_timestamp() AS ingested_at, X'FF' AS value, current_date() AS ingest_date, 1L AS value_bytes,"
        " 'malformed_json' AS reason"
    )
    for _ in range(2):
        ArchiveSink(SinkContext("archive", location, "writer"))(batch, 5)
    assert [bytes(row.value) for row in location.read(spark.read, RAW_EVENTS).collect()] == [b"\xff"]


def test_a_row_that_breaks_a_constraint_stops_the_micro_batch_and_names_the_constraint(
    spark: SparkSession, location: TableLocation
) -> None:
    batch = spark.createDataFrame([a_change(change="ended")], OUTPUT_SCHEMA)
    with pytest.raises(Exception, match="reason_when_ended"):
        changes_sink(location, [])(batch, 6)
