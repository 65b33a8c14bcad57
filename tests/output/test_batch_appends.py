"""Appends of micro-batches: a table takes each of them once, whoever repeats it and whenever."""

import os
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from sessionization.durations import HOUR_MS
from sessionization.errors import StreamError
from sessionization.spark.output.sinks import SinkContext
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.log_cleanup import delete_old_log_entries
from sessionization.spark.tables.schemas import STREAM_PROGRESS, TABLES
from tests.support.warehouse import empty_tables, frame_of

ROWS: Any = None


@pytest.fixture
def appends(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The options of each append."""
    found: list[dict[str, str]] = []
    monkeypatch.setattr(TableLocation, "append", lambda *_args, **options: found.append(options))
    return found


def test_every_append_names_its_writer_and_micro_batch_to_delta(appends: list[dict[str, str]]) -> None:
    SinkContext("archive", TableLocation(), "ours").append(ROWS, STREAM_PROGRESS, 8)
    assert appends == [{"userMetadata": "ours 8", "txnAppId": "ours", "txnVersion": "8"}]


def test_a_run_that_has_lost_its_lease_appends_nothing(appends: list[dict[str, str]]) -> None:
    def check_lease() -> None:
        raise StreamError

    with pytest.raises(StreamError):
        SinkContext("archive", TableLocation(), "ours", check_lease).append(ROWS, STREAM_PROGRESS, 8)
    assert appends == []


def test_no_table_ever_forgets_a_micro_batch() -> None:
    """With this property Delta ignores micro-batches of a certain age: a repeated one would be there twice."""
    for table in TABLES:
        assert "delta.setTransactionRetentionDuration" not in dict(table.properties)


@pytest.fixture
def location(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> TableLocation:
    return empty_tables(spark, TableLocation(tmp_path_factory.mktemp("warehouse")), owner="ours")


def a_row(spark: SparkSession) -> DataFrame:
    at = datetime(2026, 11, 28, tzinfo=UTC)
    return frame_of(spark, STREAM_PROGRESS, [{"query": "archive", "batch_id": 0, "rows_in": 1, "processed_at": at}])


@pytest.mark.spark
def test_a_table_takes_a_repeated_micro_batch_once(spark: SparkSession, location: TableLocation) -> None:
    rows = a_row(spark)
    first = SinkContext("archive", location, "ours")
    for batch_id in (0, 1):
        first.append(rows, STREAM_PROGRESS, batch_id)
    location.delta_table(spark, STREAM_PROGRESS).optimize().executeCompaction()
    restarted = SinkContext("archive", location, "ours")
    for batch_id in (1, 2):
        restarted.append(rows, STREAM_PROGRESS, batch_id)
    first.append(rows, STREAM_PROGRESS, 2)  # a driver that hung, and wakes up
    SinkContext("archive", location, "theirs").append(rows, STREAM_PROGRESS, 2)
    assert location.read(spark.read, STREAM_PROGRESS).count() == 4


@pytest.mark.spark
def test_a_micro_batch_is_known_for_longer_than_the_log_goes_back(spark: SparkSession, location: TableLocation) -> None:
    """So a job may be down for any time between its append and Spark's commit."""
    rows, writer = a_row(spark), SinkContext("archive", location, "ours")
    for batch_id in (0, 1):
        writer.append(rows, STREAM_PROGRESS, batch_id)
    spark.sql(location.set_properties_sql(STREAM_PROGRESS, {"delta.checkpointInterval": "1"}))
    SinkContext("archive", location, "theirs").append(rows, STREAM_PROGRESS, 0)
    for file in (location.folder_of(STREAM_PROGRESS.name) / "_delta_log").glob("0*"):
        os.utime(file, (time.time() - 3 * HOUR_MS / 1_000,) * 2)
    SinkContext("archive", location, "theirs").append(rows, STREAM_PROGRESS, 1)
    delete_old_log_entries(spark, location, [STREAM_PROGRESS], first_unread=None)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # as for a new start
    history = location.history(spark, STREAM_PROGRESS, 100)
    assert history.where("userMetadata = 'ours 1'").isEmpty()
    writer.append(rows, STREAM_PROGRESS, 1)
    assert location.read(spark.read, STREAM_PROGRESS).count() == 4
