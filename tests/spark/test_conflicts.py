"""Somebody changes a table within a transaction of the stream: it is done once more, and its rows are there once."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from sessionization.core.events import Change, ChangeKind, EndReason, Platform
from sessionization.spark.tables import rollup
from sessionization.spark.tables.conflicts import is_conflict
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSIONS
from tests.spark.test_rollup import T, frame
from tests.spark.warehouse import empty_tables

DEADLINE_S = 120


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


class Meanwhile:
    """Rows that are not there before something else was done to the table, and that may be read again and again after it."""

    def __init__(self, folder: Path) -> None:
        self._is_read, self._is_done = folder / "is read", folder / "is done"

    def late(self, rows: DataFrame) -> DataFrame:
        is_read, is_done = self._is_read, self._is_done

        def late(batches: Iterator[Any]) -> Iterator[Any]:
            is_read.touch()
            wait_for(is_done)
            return batches

        return rows.coalesce(1).mapInArrow(late, rows.schema)

    def do(self, transaction: Callable[[], None], spark: SparkSession, statement: str) -> BaseException | None:
        """Let the statement come between the begin and the commit of the transaction; what that raised."""
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(transaction)
            try:
                wait_for(self._is_read)
                spark.sql(statement).collect()
            finally:
                self._is_done.touch()
            return running.exception(DEADLINE_S)


@pytest.mark.parametrize("again", [True, False])
def test_an_append_meets_new_settings_of_the_table(
    spark: SparkSession, location: TableLocation, tmp_path: Path, *, again: bool
) -> None:
    meanwhile = Meanwhile(tmp_path)
    rollup.merge(location.delta_table(spark, SESSIONS), frame(spark, [a_change(1)]))
    late = meanwhile.late(spark.createDataFrame(location.read(spark.read, SESSIONS).collect(), SESSIONS.schema))
    append = TableLocation.append if again else TableLocation.append.__wrapped__
    error = meanwhile.do(
        lambda: append(location, late, SESSIONS, txnAppId="w", txnVersion="1"),
        spark,
        f"ALTER TABLE {location.sql_name(SESSIONS.name)} SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 9 days')",
    )
    assert error is None if again else is_conflict(error)
    assert location.read(spark.read, SESSIONS).count() == (2 if again else 1)


@pytest.mark.parametrize("again", [True, False])
def test_a_merge_meets_rows_that_are_deleted(
    spark: SparkSession, location: TableLocation, tmp_path: Path, *, again: bool
) -> None:
    meanwhile, sessions = Meanwhile(tmp_path), location.delta_table(spark, SESSIONS)
    rollup.merge(sessions, frame(spark, [a_change(1), a_change(2)]))
    ended = a_change(2, kind=ChangeKind.ENDED, ended_ms=T + 1, end_reason=EndReason.REPORTED)
    late = meanwhile.late(frame(spark, [ended]))
    merge = rollup.merge if again else rollup.merge.__wrapped__
    error = meanwhile.do(
        lambda: merge(sessions, late), spark, f"DELETE FROM {location.sql_name(SESSIONS.name)} WHERE session_id = 1"
    )
    assert error is None if again else is_conflict(error)
    rows = location.read(spark.read, SESSIONS).select("session_id", "status").collect()
    assert [tuple(row) for row in rows] == [(2, "ended" if again else "live")]
