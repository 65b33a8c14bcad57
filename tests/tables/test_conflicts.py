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
from sessionization.errors import StreamError
from sessionization.spark.tables import rollup
from sessionization.spark.tables.conflicts import is_conflict
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSIONS
from tests.tables.test_rollup import T, frame
from tests.tables.warehouse import LOOKBACK_MS, empty_tables, frame_of, merge_changes

pytestmark = pytest.mark.spark

WITHOUT_RETRY = pytest.param(False, marks=pytest.mark.long)
"""Shows that the test causes a conflict."""

DEADLINE_S = 120
SINCE = rollup.search_since(T, LOOKBACK_MS)


@pytest.fixture
def location(spark: SparkSession, tmp_path: Path) -> TableLocation:
    location = TableLocation(tmp_path / "warehouse")
    empty_tables(spark, location, owner="ours")
    return location


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
        lambda: merge(rollup.MergeTarget.open(spark.newSession(), location), delayed, SINCE),
        lambda: spark.sql(f"DELETE FROM {location.sql_name(SESSIONS.name)} WHERE session_id = 1").collect(),
    )
    assert error is None if is_retried else is_conflict(error)
    rows = location.read(spark.read, SESSIONS).select("session_id", "status").collect()
    assert [tuple(row) for row in rows] == [(2, "ended" if is_retried else "live")]


@pytest.mark.parametrize("is_during", [False, True], ids=["before the transaction", "during it"])
def test_a_run_adds_no_second_row_of_a_session_that_its_successor_has_inserted(
    spark: SparkSession, location: TableLocation, tmp_path: Path, *, is_during: bool
) -> None:
    """The run has found no row of the session in any day, and is then cut off from its lease."""
    own_session = spark.newSession()
    target = rollup.MergeTarget.open(own_session, location)
    orphan = a_change(1, kind=ChangeKind.ENDED, started_ms=None, ended_ms=T, end_reason=EndReason.ORPHANED)

    def insert() -> None:
        merge_changes(spark, location, frame(spark, [orphan]))

    def insert_too(rows: DataFrame) -> None:
        rollup.merge_folded(target, rollup.fold_by_session(rows), SINCE, days=[])

    if is_during:
        change = ConcurrentChange(tmp_path)
        assert is_conflict(change.do(lambda: insert_too(change.delayed(frame(own_session, [orphan]))), insert))
    else:
        insert()
    with pytest.raises(StreamError, match="another run has merged changes into sessions since"):
        insert_too(frame(own_session, [orphan]))
    insert()
    assert location.read(spark.read, SESSIONS).count() == 1
