"""The stream's commits: each table takes a micro-batch once, whoever repeats it; a commit that conflicts is retried."""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from sessionization.core.events import Change, ChangeKind, EndReason, Platform
from sessionization.durations import HOUR_MS
from sessionization.errors import StreamError
from sessionization.spark.output.sinks import SinkContext
from sessionization.spark.tables import rollup
from sessionization.spark.tables.conflicts import is_conflict
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.log_cleanup import delete_old_log_entries
from sessionization.spark.tables.schemas import SESSIONS, STREAM_PROGRESS, TABLES
from tests.support.changes import T, frame
from tests.support.waiting import wait_for
from tests.support.warehouse import LOOKBACK_MS, empty_tables, frame_of, merge_changes

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


WITHOUT_RETRY = pytest.param(False, marks=pytest.mark.long)
"""Shows that the test causes a conflict."""

DEADLINE_S = 120
SINCE = rollup.search_since(T, LOOKBACK_MS)


def a_change(session_id: int, **values: Any) -> tuple[str, Change]:
    started: dict[str, Any] = {"kind": ChangeKind.STARTED, "platform": Platform.PC, "processed_ms": T, "started_ms": T}
    return "d", Change(session_id, "ann", **started | values)


class ConcurrentChange:
    """Delays the rows of a transaction until another statement has changed the table; they can be read repeatedly."""

    def __init__(self, folder: Path) -> None:
        self._is_read, self._is_done = folder / "is read", folder / "is done"

    def delayed(self, rows: DataFrame) -> DataFrame:
        is_read, is_done = self._is_read, self._is_done

        def delayed(batches: Iterator[Any]) -> Iterator[Any]:
            is_read.touch()
            wait_for(is_done.exists, str(is_done), DEADLINE_S)
            return batches

        return rows.coalesce(1).mapInArrow(delayed, rows.schema)

    def do(self, transaction: Callable[[], object], change: Callable[[], object]) -> BaseException | None:
        """Make the change between the start and the commit of the transaction; return what the transaction raised."""
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(transaction)
            try:
                wait_for(self._is_read.exists, str(self._is_read), DEADLINE_S)
                change()
            finally:
                self._is_done.touch()
            return running.exception(DEADLINE_S)


@pytest.mark.spark
@pytest.mark.parametrize("is_retried", [True, WITHOUT_RETRY])
def test_an_append_is_retried_after_the_settings_of_the_table_change(
    spark: SparkSession, location: TableLocation, tmp_path: Path, *, is_retried: bool
) -> None:
    concurrent_change, at = ConcurrentChange(tmp_path), datetime.now(UTC)
    session = {"device_id": "d", "session_id": 1, "platform": "pc", "revision": 0, "status": "live", "started_at": at}
    session |= {"updated_at": at, "_part": "live"}
    delayed = concurrent_change.delayed(frame_of(spark, SESSIONS, [session]))
    append = TableLocation.append if is_retried else TableLocation.append.__wrapped__
    error = concurrent_change.do(
        lambda: append(location, delayed, SESSIONS, txnAppId="w", txnVersion="1"),
        lambda: spark.sql(location.set_properties_sql(SESSIONS, {"delta.logRetentionDuration": "interval 9 days"})),
    )
    assert error is None if is_retried else is_conflict(error)
    assert location.read(spark.read, SESSIONS).count() == (1 if is_retried else 0)


@pytest.mark.spark
@pytest.mark.parametrize("is_retried", [True, WITHOUT_RETRY])
def test_a_merge_is_retried_after_rows_are_deleted(
    spark: SparkSession, location: TableLocation, tmp_path: Path, *, is_retried: bool
) -> None:
    concurrent_change = ConcurrentChange(tmp_path)
    merge_changes(spark, location, frame(spark, [a_change(1), a_change(2)]))
    ended = a_change(2, kind=ChangeKind.ENDED, ended_ms=T + 1, end_reason=EndReason.REPORTED)
    delayed = concurrent_change.delayed(frame(spark, [ended]))
    merge = rollup.merge if is_retried else rollup.merge.__wrapped__
    error = concurrent_change.do(
        lambda: merge(spark, location, delayed, SINCE),
        lambda: spark.sql(f"DELETE FROM {location.sql_name(SESSIONS.name)} WHERE session_id = 1").collect(),
    )
    assert error is None if is_retried else is_conflict(error)
    rows = location.read(spark.read, SESSIONS).select("session_id", "status").collect()
    assert [tuple(row) for row in rows] == [(2, "ended" if is_retried else "live")]


ORPHAN = a_change(1, kind=ChangeKind.ENDED, started_ms=None, ended_ms=T, end_reason=EndReason.ORPHANED)


@pytest.mark.spark
def test_a_run_that_hung_does_not_insert_a_session_again_that_its_successor_has_inserted(
    spark: SparkSession, location: TableLocation, tmp_path: Path
) -> None:
    change = ConcurrentChange(tmp_path)
    delayed = rollup.fold_by_session(change.delayed(frame(spark, [ORPHAN])))
    error = change.do(
        lambda: rollup.merge_folded(spark, location, delayed, SINCE),
        lambda: merge_changes(spark, location, frame(spark, [ORPHAN])),
    )
    assert is_conflict(error)
    assert location.read(spark.read, SESSIONS).count() == 1
