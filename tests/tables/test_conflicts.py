"""Another writer changes a table during a transaction of the stream: it is retried, and writes its rows once."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from sessionization.core.events import Change, ChangeKind, EndReason, Platform
from sessionization.spark.tables import rollup
from sessionization.spark.tables.conflicts import is_conflict
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSIONS
from tests.support.merged import T, frame
from tests.support.warehouse import LOOKBACK_MS, empty_tables, frame_of, merge_changes

pytestmark = pytest.mark.spark

WITHOUT_RETRY = pytest.param(False, marks=pytest.mark.long)
"""Shows that the test causes a conflict."""

DEADLINE_S = 120
SINCE = rollup.search_since(T, LOOKBACK_MS)


@pytest.fixture
def location(spark: SparkSession, tmp_path: Path) -> TableLocation:
    return empty_tables(spark, TableLocation(tmp_path / "warehouse"), owner="ours")


def a_change(session_id: int, **values: Any) -> tuple[str, Change]:
    started: dict[str, Any] = {"kind": ChangeKind.STARTED, "platform": Platform.PC, "processed_ms": T, "started_ms": T}
    return "d", Change(session_id, "ann", **started | values)


def wait_for(flag: Path) -> None:
    until = time.monotonic() + DEADLINE_S
    while not flag.exists():
        assert time.monotonic() < until, flag
        time.sleep(0.05)


class ConcurrentChange:
    """Delays the rows of a transaction until another statement has changed the table; they can be read repeatedly."""

    def __init__(self, folder: Path) -> None:
        self._is_read, self._is_done = folder / "is read", folder / "is done"

    def delayed(self, rows: DataFrame) -> DataFrame:
        is_read, is_done = self._is_read, self._is_done

        def delayed(batches: Iterator[Any]) -> Iterator[Any]:
            is_read.touch()
            wait_for(is_done)
            return batches

        return rows.coalesce(1).mapInArrow(delayed, rows.schema)

    def do(self, transaction: Callable[[], object], change: Callable[[], object]) -> BaseException | None:
        """Make the change between the start and the commit of the transaction; return what the transaction raised."""
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(transaction)
            try:
                wait_for(self._is_read)
                change()
            finally:
                self._is_done.touch()
            return running.exception(DEADLINE_S)


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
