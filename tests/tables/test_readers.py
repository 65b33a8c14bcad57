"""Polars, delta-rs and DuckDB read the tables of a real run as Spark does, every row and value (docs/readers.md)."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSIONS, TABLES
from sessionization.spark.tables.views import create_views
from sessionization_laptop.notebook_data import players
from sessionization_simulator.simulate_settings import SimulateSettings
from tests.support.in_process import job_running
from tests.support.settings import settings_of

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
    """The tables of a run that MERGE has changed so often that rows of `sessions` are marked as deleted."""
    folder = tmp_path_factory.mktemp("readers") / "evening"
    where = {name: folder / name for name in ("input", "warehouse", "checkpoints")}
    settings = settings_of(SessionizeSettings, where | {"heartbeat": "1s", "trigger": "500ms", "mlflow": "off"})
    where["input"].mkdir(parents=True)
    evening = {"output": where["input"], "live": 80, "session_length": "60s", "duration": "10m", "dirt": 0.1, "seed": 2}
    with players(SimulateSettings.model_validate(evening)), job_running(settings) as job:
        job.wait_for(
            lambda: rows_marked_as_deleted(where["warehouse"] / SESSIONS.name) > 0, "rows are marked as deleted"
        )
    return where["warehouse"]


def rows_marked_as_deleted(table: Path) -> int:
    """How many rows the table's current files have that are not in the table."""
    if not any(table.glob("_delta_log/*.json")):
        return 0
    files = map(unquote, deltalake.DeltaTable(str(table)).file_uris())
    return sum(pq.read_metadata(file).num_rows for file in files) - delta_rs(table).num_rows


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
