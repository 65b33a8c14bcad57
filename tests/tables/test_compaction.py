"""What the stream does between micro-batches: small files are compacted in turn, and the tables' logs stay short."""

import logging
import os
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.durations import MINUTE_MS
from sessionization.ops import land_changes
from sessionization.ops.land_changes import Landing
from sessionization.session_conf import COMPACTION_CONF, added_conf
from sessionization.spark.checkpoint.backlog import first_unread_version
from sessionization.spark.tables import compaction
from sessionization.spark.tables.compaction import CHANGES_TARGETS, TURN_S, Turns
from sessionization.spark.tables.creation import create_table
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.log_cleanup import FOLDER_LOG_RETENTION_MS, delete_old_log_entries
from sessionization.spark.tables.schemas import RAW_EVENTS, SESSION_CHANGES
from tests.support.changes import a_change, changes_frame
from tests.support.delta import live_files, read_table

MIN_FILE_SIZE, MAX_FILE_SIZE = (f"spark.databricks.delta.optimize.{bound}FileSize" for bound in ("min", "max"))


def test_each_item_has_its_turn_after_the_time_of_one_and_the_clock_decides_which_is_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compaction, "wall_clock_ms", lambda: 7)
    seconds = [0.0]
    turns = Turns("abc", lambda: seconds[0])
    taken = []
    for seconds[0] in (TURN_S - 1, TURN_S, TURN_S + 1, 2 * TURN_S, 9 * TURN_S, 9 * TURN_S + 1, 10 * TURN_S):
        taken.append(turns.next_if_due())
    assert [item is not None for item in taken] == [False, True, False, True, True, False, True]
    assert "".join(item for item in taken if item) == "cabc"


def changes_in_two_files(spark: SparkSession, location: TableLocation) -> Path:
    create_table(spark, location, SESSION_CHANGES, "ours")
    for session_id in (1, 2):
        location.append(changes_frame(spark, [a_change(session_id=session_id)]), SESSION_CHANGES)
    assert isinstance(location.warehouse, Path)
    table = location.warehouse / SESSION_CHANGES.name
    assert len(live_files(table)) == 2
    return table


@pytest.mark.spark
@pytest.mark.parametrize(
    ("ours", "callers"),
    [
        pytest.param({MIN_FILE_SIZE: "1", MAX_FILE_SIZE: "1000000"}, {}, id="ours"),
        pytest.param(COMPACTION_CONF, {MIN_FILE_SIZE: "1"}, id="the caller's"),
    ],
)
def test_a_compaction_leaves_large_files_and_the_settings_of_the_session(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: dict[str, str], callers: dict[str, str]
) -> None:
    """Neither size is ours if the caller has set one: they belong together."""
    monkeypatch.setattr(compaction, "COMPACTION_CONF", ours)
    location = TableLocation(tmp_path)
    table = changes_in_two_files(spark, location)
    session = spark.newSession()
    for name in COMPACTION_CONF:
        session.conf.unset(name)
    for name, value in callers.items():
        session.conf.set(name, value)
    with added_conf(session, ours):
        found = {name: session.conf.get(name, None) for name in COMPACTION_CONF}
    assert found == (dict.fromkeys(COMPACTION_CONF) | callers if callers else ours)
    CHANGES_TARGETS[-1].compact(session, location)
    assert len(live_files(table)) == 2, "each file is as large as the limit"
    assert {name: session.conf.get(name, None) for name in COMPACTION_CONF} == dict.fromkeys(COMPACTION_CONF) | callers


@pytest.mark.spark
def test_a_failed_compaction_is_logged(spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        CHANGES_TARGETS[0].compact(spark, TableLocation(tmp_path / "nowhere"))
    assert "compaction of session_changes was put off: " in caplog.text


@pytest.mark.spark
def test_land_changes_compacts_in_turn(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "TURN_S", 0)
    monkeypatch.setattr(land_changes, "append_missing_changes", lambda *_: None)
    location = TableLocation(tmp_path)
    table = changes_in_two_files(spark, location)
    landing = Landing(location, {}, "changes", tmp_path / "checkpoints", trigger_ms=1)
    for batch_id in range(len(CHANGES_TARGETS)):
        landing._append(spark.createDataFrame([], "value binary"), batch_id)
    assert len(live_files(table)) == 1


CLEANED = (SESSION_CHANGES, RAW_EVENTS)
COMMITS = 8
YOUNG = 6
"""The first version that is not older than the retention."""


@pytest.fixture(scope="module")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a checkpoint of the log every two commits; only the last entries are young."""
    folder = tmp_path_factory.mktemp("table")
    for version in range(COMMITS):
        rows = spark.range(1).withColumnRenamed("id", "number")
        if version == 0:
            rows.writeTo(f"delta.`{folder}`").using("delta").tableProperty("delta.checkpointInterval", "2").create()
        else:
            rows.write.format("delta").mode("append").save(str(folder))
    youngest_ms = wall_clock_ms() - FOLDER_LOG_RETENTION_MS - 2 * MINUTE_MS
    for file in (folder / "_delta_log").iterdir():
        if file.name[:20].isdigit() and (version := int(file.name[:20])) < YOUNG:
            os.utime(file, ns=((youngest_ms - (YOUNG - version) * 5 * MINUTE_MS) * 1_000_000,) * 2)
    return folder


@pytest.fixture
def location(template: Path, tmp_path: Path) -> TableLocation:
    for table in CLEANED:
        shutil.copytree(template, tmp_path / table.name)
    return TableLocation(tmp_path)


def oldest_entries(location: TableLocation) -> list[int]:
    """The first version in the log of each table."""
    assert location.warehouse is not None
    logs = [location.warehouse / table.name / "_delta_log" for table in CLEANED]
    return [min(int(file.stem) for file in log.glob("*.json")) for log in logs]


def assert_whole(spark: SparkSession, location: TableLocation) -> None:
    """Check that Spark, and the reader that most tests use, find all rows."""
    assert location.warehouse is not None
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    first, second = (location.read(spark.read, table) for table in CLEANED)
    assert first.unionAll(second).count() == COMMITS * len(CLEANED)
    assert [len(read_table(location.warehouse / table.name)) for table in CLEANED] == [COMMITS] * len(CLEANED)


@pytest.mark.spark
def test_old_entries_are_deleted_up_to_a_checkpoint(spark: SparkSession, location: TableLocation) -> None:
    assert oldest_entries(location) == [0, 0]
    delete_old_log_entries(spark, location, CLEANED, first_unread=COMMITS + 1)
    assert set(oldest_entries(location)) <= {4, 5, 6}
    assert_whole(spark, location)


@pytest.mark.spark
def test_what_the_rollup_may_still_read_stays(spark: SparkSession, location: TableLocation) -> None:
    delete_old_log_entries(spark, location, CLEANED, first_unread=3)
    of_changes, of_messages = oldest_entries(location)
    assert (of_changes, of_messages > 3) == (2, True)
    delete_old_log_entries(spark, location, CLEANED, first_unread=None)
    assert oldest_entries(location)[0] == 2
    assert_whole(spark, location)


@pytest.mark.spark
def test_a_log_that_cannot_be_cleaned_up_ends_no_query(spark: SparkSession, tmp_path: Path) -> None:
    delete_old_log_entries(spark, TableLocation(tmp_path / "nowhere"), [RAW_EVENTS], first_unread=None)
    delete_old_log_entries(spark, TableLocation(catalog="main", schema="games"), [RAW_EVENTS], first_unread=None)


@pytest.mark.parametrize(
    ("committed", "in_snapshot", "expected"),
    [(None, "false", None), (0, "true", None), (0, "false", 40), (1, "false", 41)],
)
def test_the_rollup_has_read_what_it_has_committed(
    tmp_path: Path, committed: int | None, in_snapshot: str, expected: int | None
) -> None:
    for log in ("offsets", "commits"):
        (tmp_path / "rollup" / log).mkdir(parents=True)
    for batch_id in range(3):
        position = f'{{"reservoirVersion":{40 + batch_id},"isStartingVersion":{in_snapshot}}}'
        (tmp_path / "rollup" / "offsets" / str(batch_id)).write_text(f'v1\n{{"batchTimestampMs":1}}\n{position}\n')
        if committed is not None and batch_id <= committed:
            (tmp_path / "rollup" / "commits" / str(batch_id)).write_text("v1\n{}")
    assert first_unread_version(tmp_path) == expected
