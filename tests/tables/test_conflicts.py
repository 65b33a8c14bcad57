"""Another writer changes a table during a transaction of the stream: it is retried, and writes its rows once."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
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
        lambda: merge(rollup.NumberedMerge.begin(spark.newSession(), location), delayed, SINCE),
        lambda: spark.sql(f"DELETE FROM {location.sql_name(SESSIONS.name)} WHERE session_id = 1").collect(),
    )
    assert error is None if is_retried else is_conflict(error)
    rows = location.read(spark.read, SESSIONS).select("session_id", "status").collect()
    assert [tuple(row) for row in rows] == [(2, "ended" if is_retried else "live")]


ORPHAN = a_change(1, kind=ChangeKind.ENDED, started_ms=None, ended_ms=T, end_reason=EndReason.ORPHANED)


class LostLease:
    """The lease is held when it is checked for the first time, and not any more."""

    def __init__(self, lose: Callable[[], None]) -> None:
        self._lose, self._checks = lose, 0

    def check(self) -> None:
        self._checks += 1
        if self._checks == 1:
            self._lose()
        else:
            msg = "the lease is over"
            raise StreamError(msg)


@pytest.mark.parametrize("is_during", [False, True], ids=["before the transaction", "during it"])
def test_a_run_that_hung_does_not_insert_a_session_again_that_its_successor_has_inserted(
    spark: SparkSession, location: TableLocation, tmp_path: Path, *, is_during: bool
) -> None:
    """The run has not read the day of the session. Its successor takes the lease when the run has just checked it."""

    def successor_merges() -> None:
        merge_changes(spark, location, frame(spark, [ORPHAN]))

    own_session = spark.newSession()
    rows = frame(own_session, [ORPHAN])
    lease = LostLease((lambda: None) if is_during else successor_merges)
    into = rollup.NumberedMerge.begin(own_session, location, lease.check)
    if is_during:
        change = ConcurrentChange(tmp_path)
        delayed = rollup.fold_by_session(change.delayed(rows))
        assert is_conflict(change.do(lambda: rollup.merge_folded(into, delayed, SINCE, days=[]), successor_merges))
    with pytest.raises(StreamError, match="the lease is over"):
        rollup.merge_folded(into, rollup.fold_by_session(rows), SINCE, days=[])
    assert location.read(spark.read, SESSIONS).count() == 1


def test_a_first_merge_of_a_run_that_changes_no_row_still_keeps_a_late_one_away(
    spark: SparkSession, location: TableLocation
) -> None:
    """The successor repeats the micro-batch that the run before has merged."""
    merge_changes(spark, location, frame(spark, [ORPHAN]))
    late = rollup.NumberedMerge.begin(spark, location, LostLease(lambda: None).check)
    merge_changes(spark, location, frame(spark, [ORPHAN]))
    with pytest.raises(StreamError, match="the lease is over"):
        rollup.merge_folded(late, rollup.fold_by_session(frame(spark, [a_change(2)])), SINCE, days=[])


def test_a_run_with_its_lease_merges_although_the_table_has_a_greater_number(
    spark: SparkSession, location: TableLocation
) -> None:
    """As on a deep clone, which has the numbers of the table that it copies, and versions from 0 on."""
    begun = rollup.NumberedMerge.begin(spark, location)
    rollup.merge(replace(begun, number=1_000), frame(spark, [ORPHAN]), SINCE)
    rollup.merge(begun, frame(spark, [ORPHAN, a_change(2)]), SINCE, finds_days=True)
    rows = location.read(spark.read, SESSIONS).select("session_id", "status").collect()
    assert sorted(map(tuple, rows)) == [(1, "ended"), (2, "live")]


def test_a_session_that_takes_no_number_has_all_days_read(spark: SparkSession, location: TableLocation) -> None:
    merge_changes(spark, location, frame(spark, [ORPHAN]))
    own_session = spark.newSession()
    into = rollup.NumberedMerge.begin(own_session, location)
    own_session.conf.set("spark.databricks.delta.write.txnAppId", "of the caller")
    own_session.conf.set("spark.databricks.delta.write.txnVersion", "1")
    rollup.merge_folded(into, rollup.fold_by_session(frame(own_session, [ORPHAN, a_change(2)])), SINCE, days=[])
    assert location.read(spark.read, SESSIONS).count() == 2
    with pytest.raises(StreamError, match=r"unset spark\.databricks\.delta\.write\.txnAppId and "):
        rollup.merge_folded(into, rollup.fold_by_session(frame(own_session, [a_change(3)])), SINCE)
