"""Every query of the dashboard and of the alerts runs on the tables, and returns rows."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sessionization.spark.tables.creation import create_table
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import (
    DAILY_ACTIVITY,
    PLAYER_DAYS,
    QUARANTINE,
    RETENTION,
    SESSION_CHANGES,
    SESSIONS,
    STREAM_PROGRESS,
    Table,
)
from sessionization.spark.tables.views import create_views
from tests.bundle.prod import ALERTS, SCHEMA
from tests.support.dashboards import dataset_sql, widget_sql, widgets
from tests.support.warehouse import empty_tables, evening_rows, frame_of
from tools.bundle.target import ROOT

pytestmark = pytest.mark.spark

DASHBOARD = json.loads((ROOT / "bundles/session_overview.lvdash.json").read_text(encoding="utf-8"))


def player_rows(now: datetime) -> dict[Table, list[dict[str, Any]]]:
    """Two days of a player, as the job players counts them."""
    days = [now.date() - timedelta(days=1), now.date()]
    player = {"player_kind": "device", "player": "d1", "platform": "pc", "first_at": now, "last_at": now}
    counts = {"sessions": 1, "play_ms": 60_000, "foreground_ms": 0, "is_first_day": False, "provisional": False}
    numbers = {
        "title": "all", "platform": "all", "dau": 1, "wau": 1, "mau": 1, "stickiness": 1.0, "new_players": 0,
        "returning_players": 1, "sessions": 1, "sessions_per_player": 1.0, "play_ms": 60_000, "foreground_ms": 0,
        "length_p50_ms": 60_000, "length_p90_ms": 60_000, "peak_sessions": 1, "ended": 1, "share_without_end": 0.0,
        "provisional": False,
    }  # fmt: skip
    return {
        PLAYER_DAYS: [player | counts | {"day": day, "_sessions": []} for day in days],
        DAILY_ACTIVITY: [numbers | {"day": day} for day in days],
        RETENTION: [{"cohort_day": days[0], "title": "all", "players": 1, "day_1": 1}],
    }


@pytest.fixture(scope="module")
def evening(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """The views over a minute of recent rows, and over a minute of a month ago whose files are deleted."""
    folder = tmp_path_factory.mktemp("warehouse")
    location = TableLocation(folder)
    empty_tables(spark, location, owner="test")
    now = datetime.now(UTC)
    long_ago, rows = evening_rows(now - timedelta(days=30)), evening_rows(now)
    location.append(frame_of(spark, STREAM_PROGRESS, long_ago[STREAM_PROGRESS]), STREAM_PROGRESS)
    for table in (SESSION_CHANGES, SESSIONS, QUARANTINE):  # these have a file for each day
        rows[table] += [row for row in long_ago[table] if row.get("status") != "live"]
    old_files = list(folder.rglob("*.parquet"))
    for table, table_rows in rows.items():
        location.append(frame_of(spark, table, table_rows), table)
    for days in (30, 31):  # the minute may begin before midnight
        day = now.date() - timedelta(days=days)
        old_files += [*folder.glob(f"*/*_date={day}/**/*.parquet"), *folder.glob(f"*/_part={day}/*.parquet")]
    for file in old_files:
        file.unlink()
    for table, table_rows in player_rows(now).items():
        create_table(spark, location, table, "test")
        location.append(frame_of(spark, table, table_rows), table)
    create_views(spark, location)
    for view in ("freshness", "stream_health"):  # many queries read them; so both read their tables once
        found = spark.table(view)
        spark.createDataFrame(found.collect(), found.schema).coalesce(1).createOrReplaceTempView(view)
    return spark


@pytest.mark.parametrize(
    "table", [SESSION_CHANGES, SESSIONS, QUARANTINE, STREAM_PROGRESS], ids=lambda table: table.name
)
def test_reading_a_whole_table_of_this_warehouse_fails(evening: SparkSession, table: Table) -> None:
    """The queries that the tests below run therefore read only the newest files."""
    with pytest.raises(Exception, match="FILE_NOT_EXIST"):
        evening.table(table.name).collect()


@pytest.mark.parametrize("widget", list(widgets(DASHBOARD)), ids=lambda widget: widget["name"])
def test_every_widget_gets_the_columns_that_it_shows(evening: SparkSession, widget: dict[str, Any]) -> None:
    """tests/bundle checks that some widget uses each dataset."""
    datasets = {dataset["name"]: dataset_sql(dataset) for dataset in DASHBOARD["datasets"]}
    for query in (entry["query"] for entry in widget["queries"]):
        rows = evening.sql(widget_sql(query, datasets[query["datasetName"]])).limit(1).collect()
        assert rows
        assert list(rows[0].asDict()) == [field["name"] for field in query["fields"]]


@pytest.mark.parametrize("key", sorted(ALERTS))
def test_every_alert_query_returns_the_column_of_its_condition(evening: SparkSession, key: str) -> None:
    text = ALERTS[key]["query_text"]
    assert SCHEMA in text, "an alert names catalog and schema itself"
    # With an interval of an hour even a slow test misses no heartbeat.
    (row,) = evening.sql(text.replace(SCHEMA, "").replace("/ 30000", "/ 3600000")).collect()
    value = float(row[ALERTS[key]["evaluation"]["source"]["name"]])
    above_threshold = {"quarantine_share": 25.0}
    assert (
        value == above_threshold[key]
        if key in above_threshold
        else 0 <= value < ALERTS[key]["evaluation"]["threshold"]["value"]["double_value"]
    )
