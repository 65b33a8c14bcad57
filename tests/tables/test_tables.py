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
from pyspark.sql.types import StructType

from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.notebook.notebook_tables import use_tables
from sessionization.settings.table_location_settings import TableLocationSettings
from sessionization.spark.tables.creation import create_table, create_tables, refuse_missing_tables
from sessionization.spark.tables.location import OWNER_PROPERTY, TableLocation
from sessionization.spark.tables.schemas import (
    JOB_LEASE,
    LAYOUT_PROPERTY,
    PLAYER_TABLES,
    QUARANTINE,
    SESSION_PREDICTIONS,
    SESSIONS,
    STREAM_PROGRESS,
    TABLES,
)
from sessionization.spark.tables.view_sql import VIEWS
from sessionization.spark.tables.views import create_views
from tests.support.settings import settings_of
from tests.support.warehouse import empty_tables

pytestmark = pytest.mark.spark


READ_BY_OTHER_TESTS = (
    *("live_sessions", "session_quality", "session_flow", "concurrent_sessions", "account_sessions"),  # test_views
    *("stream_health", "freshness"),  # test_dashboard_queries
)
"""Views that those tests read with rows in them."""


@pytest.fixture(scope="module")
def location(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> TableLocation:
    return empty_tables(spark, TableLocation(tmp_path_factory.mktemp("warehouse with spaces")), owner="ours")


@pytest.fixture(scope="module")
def connected(spark: SparkSession) -> Any:
    """A session without a JVM, such as Spark Connect's on serverless compute."""
    return SimpleNamespace(sql=spark.sql, catalog=spark.catalog)


def test_a_session_without_a_jvm_finds_the_tables(connected: Any, location: TableLocation, tmp_path: Path) -> None:
    assert location.missing(connected, TABLES) == []
    with pytest.raises(ConfigurationError, match="does not hold session_changes, sessions"):
        use_tables(connected, settings_of(TableLocationSettings, warehouse=tmp_path))


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
        create_tables(spark, location, owner="theirs")
    assert not any(location.exists(spark, table) for table in others)


def test_missing_tables_of_a_used_checkpoint_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="session_changes is missing"):
        create_tables(spark, TableLocation(tmp_path), owner="ours", session_id_type=None)


def test_python_reads_from_a_tables_file_what_delta_stores(spark: SparkSession, location: TableLocation) -> None:
    for table in (JOB_LEASE, SESSION_PREDICTIONS, *PLAYER_TABLES):
        create_table(spark, location, table, "ours")
    for table in (*TABLES, JOB_LEASE, SESSION_PREDICTIONS, *PLAYER_TABLES):
        created = (location.folder_of(table.name) / "_delta_log" / f"{0:020}.json").read_text(encoding="utf-8")
        [metadata] = [line["metaData"] for line in map(json.loads, created.splitlines()) if "metaData" in line]
        fields = json.loads(metadata["schemaString"])["fields"]
        assert [(field["name"], field["nullable"], field["metadata"]["comment"]) for field in fields] == [
            (column.name, column.nullable, column.comment) for column in table.columns
        ]
        stored = StructType.fromJson(json.loads(metadata["schemaString"]))
        assert [field.dataType for field in stored] == [field.dataType for field in table.schema]
        assert tuple(metadata["partitionColumns"]) == table.partitioned_by
        assert metadata["configuration"] == dict(table.properties) | {OWNER_PROPERTY: "ours"}


def test_every_table_and_view_can_be_read_and_says_what_its_columns_are(
    spark: SparkSession, connected: Any, location: TableLocation
) -> None:
    use_tables(connected, settings_of(TableLocationSettings, warehouse=location.warehouse))
    for table in TABLES:
        assert spark.table(table.name).columns == table.column_names
    for view in VIEWS:
        rows = spark.table(view)  # refers to columns that exist
        assert [field.name for field in rows.schema if not field.metadata.get("comment")] == [], view
        if view not in READ_BY_OTHER_TESTS:
            assert rows.collect() == []


def test_the_views_of_a_catalog_are_made_there(spark: SparkSession, location: TableLocation, tmp_path: Path) -> None:
    in_catalog = TableLocation(None, "spark_catalog", "games_of_two")
    spark.sql(f"CREATE SCHEMA spark_catalog.games_of_two LOCATION '{tmp_path}'")
    try:
        for table in TABLES:
            folder = location.folder_of(table.name)
            spark.sql(f"CREATE TABLE {in_catalog.sql_name(table.name)} USING delta LOCATION '{folder}'")
        create_views(spark, in_catalog)
        for view in VIEWS:
            spark.table(in_catalog.sql_name(view))  # is there, and refers to columns that exist
    finally:
        spark.sql("DROP SCHEMA spark_catalog.games_of_two CASCADE")


@pytest.mark.parametrize("version", ["0", None])
def test_tables_of_another_layout_are_refused_by_each_way_to_open_them(
    spark: SparkSession, tmp_path: Path, version: str | None
) -> None:
    location = empty_tables(spark, TableLocation(tmp_path), owner="ours")
    table = location.sql_name(SESSIONS.name)
    spark.sql(
        f"ALTER TABLE {table} UNSET TBLPROPERTIES ('{LAYOUT_PROPERTY}')"
        if version is None
        else location.set_properties_sql(SESSIONS, {LAYOUT_PROPERTY: version})
    )
    start = partial(create_tables, owner="ours")
    found = "no layout" if version is None else f"layout {version}"
    for open_tables in (start, refuse_missing_tables, lambda *place: TableLocation.require(*place[::-1], TABLES)):
        with pytest.raises(CheckpointError, match=f"table sessions .* has {found}, not 1: deploy the release"):
            open_tables(spark, location)


def test_tables_that_a_killed_first_start_left_are_completed(spark: SparkSession, tmp_path: Path) -> None:
    location = empty_tables(spark, TableLocation(tmp_path / "ware house"), owner="ours")
    shutil.rmtree(location.folder_of(QUARANTINE.name))
    create_tables(spark, location, owner="ours")
    assert location.missing(spark, TABLES) == []
