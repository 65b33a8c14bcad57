"""Tables: which checkpoint may write them, which rows they refuse, and the views over them."""

import json
import shutil
from functools import partial
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
from sessionization.spark.tables.creation import create_table, create_tables, refuse_missing_tables
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import (
    LAYOUT_PROPERTY,
    QUARANTINE,
    SESSIONS,
    STREAM_PROGRESS,
    TABLES,
    Column,
    Table,
)
from sessionization.spark.tables.view import View
from sessionization.spark.tables.views import VIEWS
from tests.tables.warehouse import empty_tables

pytestmark = pytest.mark.spark


ODD_COMMENTS = ('the game\'s "version"', r"a folder: C:\new\'")
NAMED_VIEW = View("a_view", "a device's sessions", "SELECT device_id FROM {sessions}")


READ_BY_OTHER_TESTS = (
    *(views.LIVE_SESSIONS, views.SESSION_QUALITY, views.SESSION_FLOW),  # test_long_sessions
    *(views.CONCURRENT_SESSIONS, views.ACCOUNT_SESSIONS),  # test_account_views
    *(views.STREAM_HEALTH, views.FRESHNESS),  # test_dashboard_queries
)
"""Views that those tests read with rows in them."""


@pytest.fixture(scope="module")
def location(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> TableLocation:
    location = TableLocation(tmp_path_factory.mktemp("warehouse with spaces"))
    empty_tables(spark, location, owner="ours")
    return location


@pytest.fixture(scope="module")
def connected(spark: SparkSession) -> Any:
    """A session without a JVM, such as Spark Connect's on serverless compute."""
    return SimpleNamespace(sql=spark.sql, catalog=spark.catalog)


@pytest.fixture(scope="module")
def all_views(connected: Any, location: TableLocation) -> tuple[View, ...]:
    """The views, and one whose comment has an apostrophe, created in a session without a JVM."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(views, "VIEWS", (*VIEWS, NAMED_VIEW))
        use_tables(connected, TableLocationSettings(warehouse=location.warehouse))
        return views.VIEWS


def test_tables_of_another_checkpoint_are_refused(spark: SparkSession, location: TableLocation) -> None:
    with pytest.raises(CheckpointError, match="written by another checkpoint"):
        create_tables(spark, location, owner="theirs", may_create=True)


def test_a_session_without_a_jvm_finds_the_tables(connected: Any, location: TableLocation, tmp_path: Path) -> None:
    assert location.missing(connected, TABLES) == []
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


def test_columns_have_comments_and_constraints_are_on_the_tables(location: TableLocation) -> None:
    for table in TABLES:
        created = (location.folder_of(table.name) / "_delta_log" / f"{0:020}.json").read_text(encoding="utf-8")
        [metadata] = [line["metaData"] for line in map(json.loads, created.splitlines()) if "metaData" in line]
        fields = json.loads(metadata["schemaString"])["fields"]
        comments = {field["name"]: field["metadata"].get("comment") for field in fields}
        assert comments == {column.name: column.comment for column in table.columns}
        assert {f"delta.constraints.{name}": rule for name, rule in table.constraints}.items() <= (
            metadata["configuration"].items()
        )


def test_every_table_and_view_can_be_read(spark: SparkSession, all_views: tuple[View, ...]) -> None:
    for table in TABLES:
        assert spark.table(table.name).columns == table.column_names
    for view in all_views:
        rows = spark.table(view.name)  # refers to columns that exist
        if view not in READ_BY_OTHER_TESTS:
            assert rows.collect() == []
    assert spark.table(NAMED_VIEW.name).columns == ["device_id"]


@pytest.mark.parametrize("version", ["0", None])
def test_tables_of_another_layout_are_refused_by_each_way_to_open_them(
    spark: SparkSession, tmp_path: Path, version: str | None
) -> None:
    location = TableLocation(tmp_path)
    empty_tables(spark, location, owner="ours")
    table = location.sql_name(SESSIONS.name)
    spark.sql(
        f"ALTER TABLE {table} UNSET TBLPROPERTIES ('{LAYOUT_PROPERTY}')"
        if version is None
        else location.set_properties_sql(SESSIONS, {LAYOUT_PROPERTY: version})
    )
    start = partial(create_tables, owner="ours", may_create=True)
    for open_tables in (start, refuse_missing_tables, lambda *place: TableLocation.require(*place[::-1], TABLES)):
        with pytest.raises(CheckpointError, match=f"table sessions .* has layout {version}, not 1: deploy the release"):
            open_tables(spark, location)


def test_tables_that_a_killed_first_start_left_are_completed(spark: SparkSession, tmp_path: Path) -> None:
    location = TableLocation(tmp_path / "ware house")
    empty_tables(spark, location, owner="ours")
    shutil.rmtree(location.folder_of(QUARANTINE.name))
    create_tables(spark, location, owner="ours", may_create=True)
    assert location.missing(spark, TABLES) == []


def test_a_comment_may_contain_quotes_and_backslashes(spark: SparkSession, tmp_path: Path) -> None:
    columns = tuple(Column(f"odd_{n}", "string", comment) for n, comment in enumerate(ODD_COMMENTS))
    location, odd = TableLocation(tmp_path), Table("odd", ODD_COMMENTS[0], columns)
    create_table(spark, location, odd, "ours")
    fields = location.read(spark.read, odd).schema
    assert [field.metadata["comment"] for field in fields] == list(ODD_COMMENTS)
