"""The row of a micro-batch reaches `stream_progress` once, whatever comes between."""

import re
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from sessionization.errors import ConfigurationError
from sessionization.spark.output.progress import BatchProgress, Percentiles
from sessionization.spark.output.progress_log import ProgressLog
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import STREAM_PROGRESS
from tests.spark.warehouse import empty_tables

NOTHING = Percentiles(None, None, None)
BEGUN = {"sessionize": -1, "archive": -1, "rollup": -1}


def row(batch_id: int, query: str = "archive", rows_in: int = 1) -> BatchProgress:
    return BatchProgress(query, batch_id, 1_763_726_400_123, rows_in, batch_ms=7, latency=NOTHING)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> TableLocation:
    location = TableLocation(tmp_path_factory.mktemp("warehouse"))
    empty_tables(spark, location, owner="ours")
    return location


@pytest.fixture
def location(spark: SparkSession, tables: TableLocation) -> TableLocation:
    """The tables, of which `stream_progress` is empty."""
    tables.delta_table(spark, STREAM_PROGRESS).delete()
    return tables


def started(spark: SparkSession, location: TableLocation, tmp_path: Path) -> ProgressLog:
    log = ProgressLog(tmp_path / "progress", BEGUN)
    log.open(spark, location)
    return log


def in_table(spark: SparkSession, location: TableLocation) -> list[tuple[Any, ...]]:
    rows = location.read(spark.read, STREAM_PROGRESS).orderBy("query", "batch_id").collect()
    return [(row.query, row.batch_id, row.rows_in) for row in rows]


def test_rows_that_wait_are_appended_in_one_commit_and_wait_no_more(
    spark: SparkSession, location: TableLocation, tmp_path: Path
) -> None:
    commits = location.delta_table(spark, STREAM_PROGRESS).history().count()
    log = started(spark, location, tmp_path)
    delay = Percentiles(1, 2, 3)
    log.store(
        BatchProgress("sessionize", 0, 1_763_726_400_123, 5, batch_ms=7, latency=delay, lateness=delay, heartbeats=4)
    )
    log.store(row(0))
    log.append(spark, location)
    log.append(spark, location)
    assert in_table(spark, location) == [("archive", 0, 1), ("sessionize", 0, 5)]
    assert location.delta_table(spark, STREAM_PROGRESS).history().count() == commits + 1
    [stored] = location.read(spark.read, STREAM_PROGRESS).where("query = 'sessionize'").selectExpr(
        "unix_millis(processed_at) AS processed_ms", "latency_p50_ms", "lateness_max_ms", "heartbeats", "evicted"
    ).collect()  # fmt: skip
    assert tuple(stored) == (1_763_726_400_123, 1, 3, 4, None)
    assert list((tmp_path / "progress").iterdir()) == []


def test_of_a_micro_batch_that_is_repeated_the_first_row_stays(
    spark: SparkSession, location: TableLocation, tmp_path: Path
) -> None:
    log = started(spark, location, tmp_path)
    log.store(row(0))
    log.store(row(0, rows_in=2))
    started(spark, location, tmp_path).store(row(0, rows_in=3))
    log = started(spark, location, tmp_path)
    log.append(spark, location)
    log.store(row(0, rows_in=4))
    log = started(spark, location, tmp_path)
    log.store(row(0, rows_in=5))
    log.store(row(1))
    log.append(spark, location)
    assert in_table(spark, location) == [("archive", 0, 1), ("archive", 1, 1)]


def test_a_kill_between_the_commit_and_the_removal_of_the_files_doubles_nothing(
    spark: SparkSession, location: TableLocation, tmp_path: Path
) -> None:
    log = started(spark, location, tmp_path)
    for batch_id in (0, 1):
        log.store(row(batch_id))
    files = {file: file.read_bytes() for file in (tmp_path / "progress").iterdir()}
    log.append(spark, location)
    for file, content in files.items():
        file.write_bytes(content)
    log = started(spark, location, tmp_path)
    log.store(row(2))
    log.append(spark, location)
    assert in_table(spark, location) == [("archive", 0, 1), ("archive", 1, 1), ("archive", 2, 1)]
    assert list((tmp_path / "progress").iterdir()) == []


@pytest.mark.parametrize("fails_after", [False, True])
def test_an_append_that_fails_is_tried_again_and_doubles_nothing(
    spark: SparkSession, location: TableLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fails_after: bool
) -> None:
    """Whether the commit was made before the failure, only the table knows."""
    log = started(spark, location, tmp_path)
    log.store(row(0))
    append = TableLocation.append

    def failing(*args: Any) -> None:
        if fails_after:
            append(*args)
        raise AnalysisException(message="no")

    said: list[str] = []
    with monkeypatch.context() as patched, log.append_in_background(spark, location, said.append):
        patched.setattr(TableLocation, "append", failing)
    assert [line.split(":")[0] for line in said] == ["`stream_progress` is behind"]
    log.store(row(1))
    with log.append_in_background(spark, location, said.append):
        pass
    assert in_table(spark, location) == [("archive", 0, 1), ("archive", 1, 1)]
    assert len(said) == 1


def test_a_start_knows_the_newest_rows_in_the_table_and_in_the_folder(
    spark: SparkSession, location: TableLocation, tmp_path: Path
) -> None:
    log = started(spark, location, tmp_path)
    for batch_id in range(12):
        log.store(row(batch_id))
    log.append(spark, location)
    log.store(row(4, "sessionize"))
    assert ProgressLog(tmp_path / "progress", BEGUN).open(spark, location) == {"archive": 11, "sessionize": 4}
    # Older than what has been begun, and so of no interest.
    assert ProgressLog(tmp_path / "progress", BEGUN | {"archive": 12}).open(spark, location) == {"sessionize": 4}


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_a_file_that_is_not_readable_is_named_and_stops_nothing(
    spark: SparkSession, location: TableLocation, tmp_path: Path, content: str
) -> None:
    (tmp_path / "progress").mkdir()
    damaged = tmp_path / "progress" / "rollup-3.json"
    damaged.write_text(content)
    log = started(spark, location, tmp_path)
    said: list[str] = []
    with log.append_in_background(spark, location, said.append):
        log.store(row(0))
    assert [re.sub(r".*/|\(.*\)", "", line) for line in said] == [
        "rollup-3.json is not readable : delete it; `stream_progress` will lack that one row"
    ]
    damaged.unlink()
    with log.append_in_background(spark, location, said.append):
        pass
    assert in_table(spark, location) == [("archive", 0, 1)]


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "progress").touch()
    with pytest.raises(ConfigurationError, match="progress cannot be used"):
        ProgressLog(tmp_path / "progress", BEGUN)


def test_a_row_that_is_listed_before_an_older_one_waits(
    spark: SparkSession, location: TableLocation, tmp_path: Path
) -> None:
    """A listing need not show a file that appears meanwhile, though it shows one that appears after that."""
    log = started(spark, location, tmp_path)
    log.store(row(5))
    started(spark, location, tmp_path).store(row(7))
    log.append(spark, location)
    assert in_table(spark, location) == [("archive", 5, 1)]
    for batch_id in (6, 7):
        log.store(row(batch_id))
    log.append(spark, location)
    assert in_table(spark, location) == [("archive", 5, 1), ("archive", 6, 1), ("archive", 7, 1)]


def test_very_many_rows_are_appended_bit_by_bit(
    spark: SparkSession, location: TableLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessionization.spark.output.progress_log._ROWS_AT_ONCE", 5)
    log = started(spark, location, tmp_path)
    for batch_id in range(12):
        log.store(row(batch_id))
    assert log.append(spark, location)
    assert [batch_id for _, batch_id, _ in in_table(spark, location)] == [0, 1, 2, 3, 4]
    with log.append_in_background(spark, location, lambda _: None):
        pass
    assert [batch_id for _, batch_id, _ in in_table(spark, location)] == list(range(12))


def test_an_append_that_hangs_does_not_hold_up_the_stop(
    spark: SparkSession, location: TableLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessionization.spark.output.progress_log.LAST_APPEND_WITHIN_S", 0.1)
    log = started(spark, location, tmp_path)
    log.store(row(0))
    goes_on = threading.Event()
    monkeypatch.setattr(TableLocation, "append", lambda *_: goes_on.wait())
    said: list[str] = []
    with log.append_in_background(spark, location, said.append):
        pass
    goes_on.set()
    assert said == ["`stream_progress` is behind until the next start"]


def test_rows_are_appended_while_the_job_runs(
    spark: SparkSession, location: TableLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessionization.spark.output.progress_log.APPEND_EVERY_S", 0.01)
    log = started(spark, location, tmp_path)
    log.store(row(0))

    def read() -> DataFrame:
        return location.read(spark.read, STREAM_PROGRESS)

    with log.append_in_background(spark, location, lambda _: None):
        for _ in range(1_000):
            if read().count():
                break
        assert read().count() == 1
