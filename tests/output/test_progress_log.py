"""The row of a micro-batch reaches `stream_progress` once, whatever fails meanwhile."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession

from sessionization import files
from sessionization.core.session_state import Rules, RulesInForce
from sessionization.event_map.reading import DEFAULT, package_map
from sessionization.spark.output.progress import BatchProgress, Percentiles
from sessionization.spark.output.progress_log import ProgressLog
from sessionization.spark.tables.lease_table import no_lease
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import STREAM_PROGRESS, Table
from tests.support.warehouse import empty_tables

pytestmark = pytest.mark.spark

NO_DELAYS = Percentiles(None, None, None)
NONE_STARTED = {"sessionize": -1, "archive": -1, "rollup": -1}


def row(batch_id: int, query: str = "archive", rows_in: int = 1) -> BatchProgress:
    return BatchProgress(query, batch_id, 1_763_726_400_123, rows_in, batch_ms=7, latency=NO_DELAYS)


class MemoryTable:
    """Stands in for the location of the tables, and keeps the rows of `stream_progress` in memory."""

    def __init__(self, spark: SparkSession) -> None:
        self.rows: list[Row] = []
        self.spark = spark
        self._show()

    def append(self, rows: DataFrame, table: Table) -> None:
        assert table is STREAM_PROGRESS
        self.rows += rows.collect()
        self._show()

    def sql_name(self, name: str) -> str:
        return f"some_{name}"

    def _show(self) -> None:
        rows = self.spark.createDataFrame(self.rows, STREAM_PROGRESS.schema)
        rows.createOrReplaceTempView(self.sql_name(STREAM_PROGRESS.name))


@pytest.fixture
def location(spark: SparkSession) -> Any:
    return MemoryTable(spark)


def open_log(spark: SparkSession, location: Any, tmp_path: Path, **started: int) -> ProgressLog:
    checkpoint = SimpleNamespace(
        progress_folder=tmp_path / "progress",
        newest_started_batches=lambda: NONE_STARTED | started,
        is_warm=False,
        in_force=RulesInForce(Rules()),
    )
    settings = SimpleNamespace(event_map=package_map(DEFAULT))
    context = SimpleNamespace(
        spark=spark, location=location, checkpoint=checkpoint, check_lease=no_lease, settings=settings
    )
    return ProgressLog(context)  # type: ignore[arg-type]


def rows_in(location: MemoryTable) -> list[tuple[Any, ...]]:
    return sorted((row.query, row.batch_id, row.rows_in) for row in location.rows)


def test_stored_rows_are_appended_in_one_commit_and_then_removed(spark: SparkSession, tmp_path: Path) -> None:
    location = empty_tables(spark, TableLocation(tmp_path / "warehouse"), owner="ours")
    log = open_log(spark, location, tmp_path)
    delay = Percentiles(1, 2, 3)
    log.store(
        BatchProgress("sessionize", 0, 1_763_726_400_123, 5, batch_ms=7, latency=delay, lateness=delay, heartbeats=4)
    )
    log.store(row(0))
    log.store(row(1))
    log.append()
    log.append()
    assert location.newest_version(spark, STREAM_PROGRESS) == 1
    stored = location.read(spark.read, STREAM_PROGRESS).orderBy("query", "batch_id").selectExpr(
        "query", "batch_id", "rows_in", "unix_millis(processed_at) AS processed_ms", "latency_p50_ms",
        "lateness_max_ms", "heartbeats", "evicted",
    ).collect()  # fmt: skip
    assert [tuple(row) for row in stored] == [
        ("archive", 0, 1, 1_763_726_400_123, None, None, None, None),
        ("archive", 1, 1, 1_763_726_400_123, None, None, None, None),
        ("sessionize", 0, 5, 1_763_726_400_123, 1, 3, 4, None),
    ]
    assert list((tmp_path / "progress").iterdir()) == []
    assert open_log(spark, location, tmp_path).newest == {"archive": 1, "sessionize": 0}


def test_the_first_row_of_a_repeated_micro_batch_stays(
    spark: SparkSession, location: MemoryTable, tmp_path: Path
) -> None:
    log = open_log(spark, location, tmp_path)
    log.store(row(0))
    log.store(row(0, rows_in=2))
    open_log(spark, location, tmp_path).store(row(0, rows_in=3))
    log = open_log(spark, location, tmp_path)
    log.append()
    log.store(row(0, rows_in=4))
    log = open_log(spark, location, tmp_path)
    log.store(row(0, rows_in=5))
    log.store(row(1))
    log.append()
    assert rows_in(location) == [("archive", 0, 1), ("archive", 1, 1)]


def test_a_kill_between_the_commit_and_the_removal_of_the_files_doubles_nothing(
    spark: SparkSession, location: MemoryTable, tmp_path: Path
) -> None:
    log = open_log(spark, location, tmp_path)
    for batch_id in (0, 1):
        log.store(row(batch_id))
    files = {file: file.read_bytes() for file in (tmp_path / "progress").iterdir()}
    log.append()
    for file, content in files.items():
        file.write_bytes(content)
    log = open_log(spark, location, tmp_path)
    log.store(row(2))
    log.append()
    assert rows_in(location) == [("archive", 0, 1), ("archive", 1, 1), ("archive", 2, 1)]
    assert list((tmp_path / "progress").iterdir()) == []


def test_on_a_volume_no_row_depends_on_a_listing(
    spark: SparkSession, location: MemoryTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may lack new files for some seconds, and still have deleted ones. A row that is found later is never added.

    Nor does a kill within the write of a row stop the others.
    """
    monkeypatch.setattr(files, "VOLUMES", tmp_path)
    former = open_log(spark, location, tmp_path)
    for batch_id in range(4):
        former.store(row(batch_id))
    gone = tmp_path / "progress" / "archive-0.json"
    former.append()
    for batch_id in (4, 5):
        former.store(row(batch_id))
    cut_off = tmp_path / "progress" / "archive-6.json"
    cut_off.write_text('{"query":')
    monkeypatch.setattr(Path, "iterdir", lambda _: iter([gone, cut_off]))
    log = open_log(spark, location, tmp_path, archive=6)
    log.store(row(6))
    log.append()
    assert rows_in(location) == [("archive", batch_id, 1) for batch_id in range(7)]


@pytest.mark.parametrize("fails_after", [False, True])
def test_an_append_that_fails_is_tried_again_and_doubles_nothing(
    spark: SparkSession, location: MemoryTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fails_after: bool
) -> None:
    """Only the table shows whether the commit was made before the failure."""
    log = open_log(spark, location, tmp_path)
    log.store(row(0))
    append = MemoryTable.append

    def failing(*args: Any) -> None:
        if fails_after:
            append(*args)
        raise AnalysisException(message="no")

    messages: list[str] = []
    with monkeypatch.context() as patched, log.append_in_background(messages.append):
        patched.setattr(MemoryTable, "append", failing)
    assert [line.split(":")[0] for line in messages] == ["`stream_progress` is behind"]
    log.store(row(1))
    with log.append_in_background(messages.append):
        pass
    assert rows_in(location) == [("archive", 0, 1), ("archive", 1, 1)]
    assert len(messages) == 1


def test_opening_the_log_finds_the_newest_row_of_each_query_in_the_table_and_the_folder(
    spark: SparkSession, location: MemoryTable, tmp_path: Path
) -> None:
    log = open_log(spark, location, tmp_path)
    for batch_id in range(12):
        log.store(row(batch_id))
    log.append()
    log.store(row(4, "sessionize"))
    assert open_log(spark, location, tmp_path).newest == {"archive": 11, "sessionize": 4}
    # Rows older than the newest started micro-batch do not matter.
    assert open_log(spark, location, tmp_path, archive=12).newest == {"sessionize": 4}


def test_an_append_that_hangs_does_not_delay_the_stop(
    spark: SparkSession, location: MemoryTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessionization.spark.output.progress_log.LAST_APPEND_WITHIN_S", 0.1)
    log = open_log(spark, location, tmp_path)
    log.store(row(0))
    release = threading.Event()
    monkeypatch.setattr(MemoryTable, "append", lambda *_: release.wait())
    messages: list[str] = []
    with log.append_in_background(messages.append):
        pass
    release.set()
    assert messages == ["`stream_progress` is behind until the next start"]
