"""Tables: which checkpoint may write them, which rows they refuse, and the views over them."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.notebook.notebook_tables import use_tables
from sessionization.settings.table_location_settings import TableLocationSettings
from sessionization.spark.tables import views
from sessionization.spark.tables.creation import create_table, create_tables
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import STREAM_PROGRESS, TABLES
from sessionization.spark.tables.upgrade import _add_columns
from sessionization.spark.tables.view import View
from sessionization.spark.tables.views import VIEWS, create_views

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def location(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> TableLocation:
    location = TableLocation(tmp_path_factory.mktemp("warehouse with spaces"))
    create_tables(spark, location, owner="ours", may_create=True)
    return location


def test_tables_of_another_checkpoint_are_refused(spark: SparkSession, location: TableLocation) -> None:
    with pytest.raises(CheckpointError, match="written by another checkpoint"):
        create_tables(spark, location, owner="theirs", may_create=True)


def test_a_session_without_a_jvm_finds_the_tables(spark: SparkSession, location: TableLocation, tmp_path: Path) -> None:
    """Such a session is Spark Connect's, as on serverless compute."""
    connected: Any = SimpleNamespace(sql=spark.sql, catalog=spark.catalog)
    assert location.missing(connected, TABLES) == []
    use_tables(connected, TableLocationSettings(warehouse=location.warehouse))
    assert spark.table("sessions").count() == 0
    with pytest.raises(ConfigurationError, match="does not hold session_changes, sessions"):
        use_tables(connected, TableLocationSettings(warehouse=tmp_path))


def test_a_table_that_a_session_without_a_jvm_may_not_read_is_not_taken_for_missing(tmp_path: Path) -> None:
    def refuse(_sql: str) -> NoReturn:
        msg = "[INSUFFICIENT_PERMISSIONS] User does not have SELECT on Table"
        raise AnalysisException(msg)

    connected: Any = SimpleNamespace(sql=refuse)
    with pytest.raises(AnalysisException):
        TableLocation(tmp_path).exists(connected, STREAM_PROGRESS)


def test_of_two_starts_one_creates_every_table_and_the_other_none(spark: SparkSession, tmp_path: Path) -> None:
    location = TableLocation(tmp_path)
    first, *others = TABLES
    create_table(spark, location, first, "ours")  # the catalog decides which start is first
    with pytest.raises(CheckpointError, match="written by another checkpoint"):
        create_tables(spark, location, owner="theirs", may_create=True)
    assert not any(location.exists(spark, table) for table in others)


def test_missing_tables_of_a_used_checkpoint_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="session_changes is missing"):
        create_tables(spark, TableLocation(tmp_path), owner="ours", may_create=False)


def test_columns_have_comments_and_constraints_are_on_the_tables(spark: SparkSession, location: TableLocation) -> None:
    for table in TABLES:
        described = spark.sql(f"DESCRIBE TABLE {location.sql_name(table.name)}").collect()
        comments = {row.col_name: row.comment for row in described}
        assert all(comments[column.name] == column.comment for column in table.columns)
        properties = location.delta_table(spark, table).detail().first().properties
        assert {f"delta.constraints.{name}" for name, _ in table.constraints} <= properties.keys()


def test_every_view_can_be_read(spark: SparkSession, location: TableLocation) -> None:
    create_views(spark, location)
    for view in VIEWS:
        spark.table(view.name).collect()


def test_a_table_of_an_earlier_version_gets_its_missing_columns(spark: SparkSession, tmp_path: Path) -> None:
    location, added = TableLocation(tmp_path / "ware house"), STREAM_PROGRESS.columns[-1]
    earlier_table = replace(STREAM_PROGRESS, columns=STREAM_PROGRESS.columns[:-1])
    create_table(spark, location, earlier_table, "ours")
    values = {"query": "archive", "batch_id": 1, "processed_at": datetime.now(UTC), "rows_in": 0}
    location.append(
        spark.createDataFrame([tuple(map(values.get, earlier_table.column_names))], earlier_table.schema), earlier_table
    )
    for _start in range(2):
        create_tables(spark, location, owner="ours", may_create=True)
    row = tuple(map((values | {added.name: 7}).get, STREAM_PROGRESS.column_names))
    location.append(spark.createDataFrame([row], STREAM_PROGRESS.schema), STREAM_PROGRESS)
    location.append(
        spark.createDataFrame([tuple(map(values.get, earlier_table.column_names))], earlier_table.schema), earlier_table
    )
    found = location.read(spark.read, STREAM_PROGRESS)
    assert found.columns == STREAM_PROGRESS.column_names
    assert sorted(found.select(added.name).collect(), key=str) == [(7,), (None,), (None,)]


@pytest.mark.parametrize("comment", ['the game\'s "version"', r"a folder: C:\new\'"])
def test_a_column_that_is_added_has_its_comment_whatever_that_says(
    spark: SparkSession, tmp_path: Path, comment: str
) -> None:
    *earlier_columns, added = STREAM_PROGRESS.columns
    location = TableLocation(tmp_path)
    create_table(spark, location, replace(STREAM_PROGRESS, columns=tuple(earlier_columns)), "ours")
    _add_columns(spark, location, replace(STREAM_PROGRESS, columns=(*earlier_columns, replace(added, comment=comment))))
    described = spark.sql(f"DESCRIBE TABLE {location.sql_name(STREAM_PROGRESS.name)}").collect()
    assert {row.col_name: row.comment for row in described}[added.name] == comment


def test_the_comment_of_a_view_may_have_an_apostrophe(
    spark: SparkSession, location: TableLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "VIEWS", (View("a_view", "a device's sessions", "SELECT device_id FROM {sessions}"),))
    create_views(spark, location)
    assert spark.table("a_view").columns == ["device_id"]
