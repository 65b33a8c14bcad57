"""A warm start over the tables of an earlier version, which lack a column that this version reads."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.spark.operator.codec import OUTPUT_SCHEMA
from sessionization.spark.output.changes_topic import changes_not_in_table
from sessionization.spark.output.sinks import to_session_changes
from sessionization.spark.tables.creation import create_table
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES, SESSIONS
from sessionization.spark.warm_start.initial_state import warm_start
from tests.tables.warehouse import empty_tables, without_column
from tests.warm_start.test_bounded_reads import NOW_MS, at, context

pytestmark = pytest.mark.spark

NEW_COLUMN = "foreground_s"


def test_tables_that_lack_a_column_are_searched_and_get_it_at_a_warm_start(spark: SparkSession, tmp_path: Path) -> None:
    location = TableLocation(tmp_path / "warehouse")
    empty_tables(spark, location, owner="theirs")
    for table in (SESSION_CHANGES, SESSIONS):
        shutil.rmtree(tmp_path / "warehouse" / table.name)
        create_table(spark, location, without_column(table, NEW_COLUMN), "theirs")
    changes = [at(NOW_MS, 1), at(NOW_MS, 1, foreground_s=5), at(NOW_MS, 2)]
    rows = to_session_changes(spark.createDataFrame(changes, OUTPUT_SCHEMA).coalesce(1))
    location.append(rows.limit(1).drop(NEW_COLUMN), SESSION_CHANGES)  # one Start, which is not merged yet

    missing = changes_not_in_table(location.read(spark.read, SESSION_CHANGES), rows)
    assert sorted(missing.select("session_id", NEW_COLUMN).collect(), key=str) == [(1, 5), (2, None)]

    (tmp_path / "input").mkdir()
    state = warm_start(context(spark, location, input=tmp_path / "input"))
    assert state.sessions is not None
    assert [row.grouping_key for row in state.sessions.collect()] == ["pc-1"]
    for table in (SESSION_CHANGES, SESSIONS):
        stored = location.read(spark.read, table).select("device_id", NEW_COLUMN).collect()
        assert stored == [("pc-1", None)]
