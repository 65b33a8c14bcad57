"""Appends of micro-batches: each one once, whoever repeats it, and with no look-up that is not needed."""

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from sessionization.errors import CheckpointError
from sessionization.spark.checkpoint.spark_logs import InterruptedBatch
from sessionization.spark.engine.error_text import remedy_for
from sessionization.spark.tables import batch_writer
from sessionization.spark.tables.batch_writer import BatchWriter
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import STREAM_PROGRESS
from tests.tables.warehouse import empty_tables, frame_of

T = 1_763_726_400_000
ROWS: Any = SimpleNamespace(sparkSession=None)
LOOKED_UP = {"userMetadata": "ours 7", "txnAppId": "ours", "txnVersion": "7"}
Write = Callable[..., list[dict[str, str]]]


def a_commit(version: int, instant_ms: int, metadata: str | None = None) -> Row:
    at = datetime.fromtimestamp(instant_ms / 1_000, UTC)
    return Row(version=version, timestamp=at.astimezone().replace(tzinfo=None), userMetadata=metadata)


@pytest.fixture
def write(monkeypatch: pytest.MonkeyPatch) -> Write:
    """Append micro-batch 7, which an earlier start began at T, to a table with this history; return the appends."""

    def append(
        *commits: Row, batch_id: int = 7, interrupted: int = 7, is_exclusive: bool = True
    ) -> list[dict[str, str]]:
        appends: list[dict[str, str]] = []
        monkeypatch.setattr(TableLocation, "append", lambda *_args, **options: appends.append(options))
        monkeypatch.setattr(batch_writer, "_commits", lambda *args: list(commits[: args[-1]]))
        writer = BatchWriter(TableLocation(), "ours", is_exclusive, InterruptedBatch(interrupted, T))
        writer.append(ROWS, STREAM_PROGRESS, batch_id)
        return appends

    return append


def test_an_interrupted_micro_batch_is_appended_where_the_newest_one_in_the_table_is_older(write: Write) -> None:
    assert write(a_commit(9, T + 1), a_commit(8, T - 1, "ours 6")) == [LOOKED_UP]


def test_an_interrupted_micro_batch_that_the_table_has_is_not_appended_again(write: Write) -> None:
    assert write(a_commit(9, T + 2), a_commit(8, T + 1, "ours 7"), a_commit(7, T - 1, "ours 6")) == []


def test_a_micro_batch_that_the_table_has_is_found_behind_hundreds_of_other_commits(write: Write) -> None:
    others = [a_commit(version, T + version) for version in range(900, 8, -1)]
    assert write(*others, a_commit(8, T + 1, "ours 7"), a_commit(7, T - 1)) == []


@pytest.mark.parametrize("oldest", [a_commit(8, T), a_commit(0, T + 1)], ids=["before its begin", "whole"])
def test_a_history_without_the_writer_counts_if_it_covers_the_micro_batch(write: Write, oldest: Row) -> None:
    assert write(a_commit(9, T + 2, "theirs 7"), oldest) == [LOOKED_UP]


@pytest.mark.parametrize("is_exclusive", [True, False])
def test_a_history_that_begins_later_than_the_micro_batch_is_an_error(write: Write, *, is_exclusive: bool) -> None:
    with pytest.raises(CheckpointError, match="stream_progress may or may not have") as raised:
        write(a_commit(9, T + 2), a_commit(8, T + 1), is_exclusive=is_exclusive)
    assert "The checkpoint is lost" in remedy_for([str(raised.value)])


def test_without_a_lock_delta_looks_up_a_new_micro_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    appends: list[dict[str, str]] = []
    monkeypatch.setattr(TableLocation, "append", lambda *_args, **options: appends.append(options))
    BatchWriter(TableLocation(), "ours").append(ROWS, STREAM_PROGRESS, 8)
    assert appends == [{"userMetadata": "ours 8", "txnAppId": "ours", "txnVersion": "8"}]


def test_a_new_micro_batch_is_not_looked_up(write: Write) -> None:
    assert write(batch_id=8) == [{"userMetadata": "ours 8"}]  # without any commit the look-up would fail


def a_row(spark: SparkSession) -> DataFrame:
    values = {"query": "archive", "batch_id": 0, "rows_in": 1, "processed_at": datetime.fromtimestamp(T / 1_000, UTC)}
    return frame_of(spark, STREAM_PROGRESS, [values])


@pytest.mark.spark
@pytest.mark.parametrize("is_exclusive", [True, False])
def test_a_real_table_takes_a_repeated_micro_batch_once(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, *, is_exclusive: bool
) -> None:
    location = TableLocation(tmp_path_factory.mktemp("warehouse"))
    empty_tables(spark, location, owner="ours")
    first = BatchWriter(location, "ours", is_exclusive=is_exclusive)
    rows = a_row(spark)
    for batch_id in (0, 1):
        first.append(rows, STREAM_PROGRESS, batch_id)
    location.delta_table(spark, STREAM_PROGRESS).optimize().executeCompaction()
    # Without a lock it may be another driver that goes on, and knows of no interruption.
    interrupted = InterruptedBatch(1, T) if is_exclusive else None
    restarted = BatchWriter(location, "ours", is_exclusive=is_exclusive, interrupted=interrupted)
    for batch_id in (1, 2):
        restarted.append(rows, STREAM_PROGRESS, batch_id)
    assert location.read(spark.read, STREAM_PROGRESS).count() == 3


@pytest.mark.spark
def test_a_driver_that_hung_without_a_lock_does_not_append_what_the_next_one_has_repeated(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    location = TableLocation(tmp_path_factory.mktemp("warehouse"))
    empty_tables(spark, location, owner="ours")
    rows = a_row(spark)
    hung = BatchWriter(location, "ours")
    hung.append(rows, STREAM_PROGRESS, 0)
    BatchWriter(location, "ours", is_exclusive=True, interrupted=InterruptedBatch(1, T)).append(
        rows, STREAM_PROGRESS, 1
    )
    hung.append(rows, STREAM_PROGRESS, 1)
    assert location.read(spark.read, STREAM_PROGRESS).count() == 2
