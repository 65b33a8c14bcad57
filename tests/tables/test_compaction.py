"""Compaction: whose turn it is, large files, and a failure that ends no query."""

import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.ops import land_changes
from sessionization.ops.land_changes import Landing
from sessionization.session_conf import COMPACTION_CONF, added_conf
from sessionization.spark.operator.output_rows import OUTPUT_SCHEMA
from sessionization.spark.output.sinks import to_session_changes
from sessionization.spark.tables import compaction
from sessionization.spark.tables.compaction import CHANGES_TARGETS, TURN_S, Turns
from sessionization.spark.tables.creation import create_table
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES
from tests.support.changes import a_change
from tests.support.delta import live_files

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
        rows = spark.createDataFrame([a_change(session_id=session_id)], OUTPUT_SCHEMA)
        location.append(to_session_changes(rows.coalesce(1)), SESSION_CHANGES)
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
        landing._append(spark.range(0), batch_id)
    assert len(live_files(table)) == 1
