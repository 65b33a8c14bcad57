"""Polars, delta-rs and DuckDB read the tables as Spark does, every row and value (docs/readers.md)."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import QUARANTINE, RAW_EVENTS, SESSION_CHANGES, SESSIONS, TABLES
from sessionization.spark.tables.views import create_views
from tests.support.delta import live_files
from tests.support.warehouse import empty_tables, evening_rows, frame_of, merge_changes

HOW = "`make .venv/.readers` installs it"
pl = pytest.importorskip("polars", reason=HOW)
deltalake = pytest.importorskip("deltalake", reason=HOW)
duckdb = pytest.importorskip("duckdb", reason=HOW)

pytestmark = [pytest.mark.spark, pytest.mark.long]

NAMES = [table.name for table in TABLES]


def polars(table: Path) -> pa.Table:
    return pl.scan_delta(str(table)).collect().to_arrow()


def delta_rs(table: Path) -> pa.Table:
    builder = deltalake.QueryBuilder().register("rows", deltalake.DeltaTable(str(table)))
    return pa.table(builder.execute("SELECT * FROM rows").read_all())


def duckdb_over_delta_rs(table: Path) -> pa.Table:
    return as_table(duckdb.connect().register("rows", delta_rs(table)).sql("SELECT * FROM rows"))


def as_table(relation: Any) -> pa.Table:
    return pa.table(relation.to_arrow_table())


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables with rows; MERGE has marked some of `sessions` as deleted."""
    folder = tmp_path_factory.mktemp("readers") / "evening"
    location, rows = empty_tables(spark, TableLocation(folder), owner="test"), evening_rows(datetime.now(UTC))
    rows[RAW_EVENTS] = [{name: value for name, value in row.items() if name != "reason"} for row in rows[QUARANTINE]]
    del rows[SESSIONS]
    for table, table_rows in rows.items():
        location.append(frame_of(spark, table, table_rows), table)
    for change in ("started", "ended"):
        merge_changes(spark, location, location.read(spark.read, SESSION_CHANGES).where(f"change = '{change}'"))
    assert any(file.get("deletionVector") for file in live_files(folder / SESSIONS.name).values())
    return folder


@pytest.fixture(scope="module")
def expected(spark: SparkSession, warehouse: Path) -> dict[str, pa.Table]:
    location = TableLocation(warehouse)
    return {table.name: location.read(spark.read, table).toArrow() for table in TABLES}


def rows(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, table.to_pylist()))


def assert_exact(read: pa.Table, expected: pa.Table) -> None:
    """Compare all rows and values; an instant with one in another zone or unit, a text with one in another layout."""
    assert read.column_names == expected.column_names
    in_utc = pa.schema([field.with_type(utc_type(field.type)) for field in expected.schema])
    assert rows(read.cast(in_utc)) == rows(expected.cast(in_utc))
    assert expected.num_rows > 0


def utc_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(utc_type(field.type)).with_nullable(True) for field in type_])
    return pa.timestamp("us", "UTC") if pa.types.is_timestamp(type_) else type_


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("read", [polars, delta_rs, duckdb_over_delta_rs])
def test_a_reader_gives_every_row_as_spark_does(
    read: Callable[[Path], pa.Table], name: str, warehouse: Path, expected: dict[str, pa.Table]
) -> None:
    assert_exact(read(warehouse / name), expected[name])


def test_the_query_of_the_page_gives_the_live_sessions(spark: SparkSession, warehouse: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "readers.md"
    query = page.read_text(encoding="utf-8").partition("```sql\n")[2].partition("```")[0]
    connection = duckdb.connect()
    for name in ("sessions", "session_changes"):
        connection.register(name, polars(warehouse / name))
    read = as_table(connection.sql(query))
    create_views(spark, TableLocation(warehouse))
    assert_exact(read, spark.table("live_sessions").select(*read.column_names).toArrow())
