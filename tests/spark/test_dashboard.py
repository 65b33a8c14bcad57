"""What people see: every query of the dashboard and of the alerts runs on the tables, and returns rows."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import (
    QUARANTINE,
    RAW_EVENTS,
    SESSION_CHANGES,
    SESSIONS,
    STREAM_PROGRESS,
    TABLES,
    Table,
)
from sessionization.spark.tables.views import FRESHNESS, create_views
from tests.spark.warehouse import empty_tables
from tools.bundle.dashboards import dataset_sql, widget_sql, widgets
from tools.bundle.resolve import resolve
from tools.bundle.sources import ROOT, read_sources

DASHBOARD = json.loads((ROOT / "bundles/session_overview.lvdash.json").read_text(encoding="utf-8"))
ALERTS = resolve(read_sources(ROOT), "prod").resources["alerts"]
SCHEMA = "`main`.`gaming_sessions_prod`."


def rows_of(now: datetime) -> dict[Table, list[dict[str, Any]]]:
    """A minute of an evening: one session live, one ended, a message in quarantine."""
    began, beat = now - timedelta(minutes=2), now - timedelta(seconds=20)
    session: dict[str, Any] = {"device_id": "d1", "session_id": 1, "platform": "pc", "revision": 0, "started_at": began}
    change = session | {"processed_at": began, "change_date": began.date(), "duration_ms": 0}
    other = {"session_id": 2, "platform": "console"}
    end = {"change": "ended", "end_reason": "reported", "ended_at": beat, "processed_at": beat}
    message = {"stream": "pc_sessions", "ingested_at": beat, "value": b"{", "ingest_date": beat.date()}
    progress = {"processed_at": beat, "rows_in": 4, "batch_ms": 900, "latency_p50_ms": 800, "latency_p99_ms": 950}
    return {
        SESSION_CHANGES: [
            change | {"change": "started"},
            change | {"change": "heartbeat", "beat": 1, "due_at": beat, "missed_beats": 0, "processed_at": beat},
            change | other | {"change": "started"},
            change | other | end,
        ],
        SESSIONS: [
            session | {"status": "live", "updated_at": began},
            session | other | {"status": "ended", "ended_at": beat, "end_reason": "reported", "updated_at": beat},
        ],
        RAW_EVENTS: [message],
        QUARANTINE: [message | {"reason": "malformed_json"}],
        STREAM_PROGRESS: [
            progress
            | {"query": "sessionize", "batch_id": 1, "heartbeats": 1, "lateness_p50_ms": 9, "lateness_p99_ms": 9},
            progress | {"query": "archive", "batch_id": 1, "rows_in": 400, "quarantined": 100},
        ],
    }


def fill(spark: SparkSession, location: TableLocation, rows: dict[Table, list[dict[str, Any]]]) -> None:
    """Append rows to the tables, one file a table."""
    for table, of_table in rows.items():
        values = [tuple(row.get(name) for name in table.column_names) for row in of_table]
        location.append(spark.createDataFrame(values, table.schema).coalesce(1), table)


@pytest.fixture(scope="module")
def evening(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """The views over a minute of an evening, and over one of a month ago, whose files cannot be read any more."""
    folder = tmp_path_factory.mktemp("warehouse")
    location = TableLocation(folder)
    empty_tables(spark, location, owner="test")
    now = datetime.now(UTC)
    long_ago = rows_of(now - timedelta(days=30))
    del long_ago[SESSIONS]
    fill(spark, location, long_ago)
    for file in folder.rglob("*.parquet"):
        file.unlink()
    fill(spark, location, rows_of(now))
    create_views(spark, location)
    return spark


@pytest.mark.parametrize("table", [SESSION_CHANGES, QUARANTINE, STREAM_PROGRESS], ids=lambda table: table.name)
def test_whoever_reads_a_whole_table_fails_here(evening: SparkSession, table: Table) -> None:
    """So what is asked below is asked of the newest files alone."""
    with pytest.raises(Exception, match="FILE_NOT_EXIST"):
        evening.table(table.name).collect()


@pytest.mark.parametrize("widget", list(widgets(DASHBOARD)), ids=lambda widget: widget["name"])
def test_every_widget_gets_what_it_shows(evening: SparkSession, widget: dict[str, Any]) -> None:
    """Every dataset is some widget's: tests/bundle sees to that."""
    datasets = {dataset["name"]: dataset_sql(dataset) for dataset in DASHBOARD["datasets"]}
    for query in (entry["query"] for entry in widget["queries"]):
        rows = evening.sql(widget_sql(query, datasets[query["datasetName"]])).limit(1).collect()
        assert rows
        assert list(rows[0].asDict()) == [field["name"] for field in query["fields"]]


@pytest.mark.parametrize("key", sorted(ALERTS))
def test_every_alert_finds_the_column_that_it_looks_at(evening: SparkSession, key: str) -> None:
    text = ALERTS[key]["query_text"]
    assert SCHEMA in text, "an alert names catalog and schema itself"
    # However slow the tests are, the evening is young.
    (row,) = evening.sql(text.replace(SCHEMA, "").replace("'30s'", "'1h'")).collect()
    value = float(row[ALERTS[key]["evaluation"]["source"]["name"]])
    quiet = {"quarantine_share": 25.0}
    assert (
        value == quiet[key]
        if key in quiet
        else 0 <= value < ALERTS[key]["evaluation"]["threshold"]["value"]["double_value"]
    )


def alert_value(spark: SparkSession, key: str, heartbeat: str = "30s") -> tuple[float, bool]:
    """What an alert sees in the views that this session has, and whether it goes off."""
    text = ALERTS[key]["query_text"].replace(SCHEMA, "").replace("'30s'", f"'{heartbeat}'")
    (row,) = spark.sql(text).collect()
    return float(row[0]), float(row[0]) > ALERTS[key]["evaluation"]["threshold"]["value"]["double_value"]


Batches = list[tuple[float, float, int | None]]
"""Micro-batches that were done so many seconds ago, took so many, and had such a latency in milliseconds, None without events."""
FINE: dict[str, Batches] = {"sessionize": [(5, 1, 900)], "archive": [(7, 1, 1_500)], "rollup": [(6, 1, 4_000)]}


def looked_at(spark: SparkSession, queries: dict[str, Batches], beat_s: float | None = None) -> SparkSession:
    """The view `freshness` over the micro-batches of the queries, with a session that beat so many seconds ago."""
    now = datetime.now(UTC)
    rows = [
        {
            "query": query, "batch_id": number, "rows_in": int(late_ms is not None), "latency_p99_ms": late_ms,
            "latency_max_ms": late_ms, "processed_at": now - timedelta(seconds=done_s + took_s), "batch_ms": int(took_s * 1000),
            "started": None if query != "sessionize" else 0, "ended": None if query != "sessionize" else int(late_ms is not None),
        }
        for query, batches in queries.items()
        for number, (done_s, took_s, late_ms) in enumerate(batches)
    ]  # fmt: skip
    live = [{"status": "live", "updated_at": now - timedelta(hours=1)}] if beat_s is not None else []
    if beat_s is not None:
        at = now - timedelta(seconds=beat_s)
        rows.append(
            {"query": "sessionize", "batch_id": 99, "rows_in": 0, "heartbeats": 2, "batch_ms": 0, "processed_at": at}
        )
    for table, of_table in ((STREAM_PROGRESS, rows), (SESSIONS, live), (SESSION_CHANGES, [])):
        values = [tuple(row.get(name) for name in table.column_names) for row in of_table]
        spark.createDataFrame(values, table.schema).createOrReplaceTempView(f"some_{table.name}")
    sql = FRESHNESS.sql.format_map({table.name: f"some_{table.name}" for table in TABLES})
    sql = sql.replace("current_timestamp()", f"timestamp_micros({round(now.timestamp() * 1_000_000)})")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW freshness AS {sql}")
    return spark


@pytest.mark.parametrize(
    ("batches", "behind_s", "goes_off"),
    [
        ([(5, 1, 900)], 4, False),
        ([(480, 1, 900), (9, 300, 460_000), (8, 1, 1_200)], 4, False),  # a restart, eight minutes without the job
        ([(1500, 1, 900), (9, 300, 1_700_000), (8, 1, 1_200)], 4, False),  # an outage, and caught up
        ([(3600, 1, 900), (30, 1500, 3_500_000)], 3_500, True),  # its first micro-batch took 25 minutes
        ([(720, 1, 900)], 720, True),  # none is done for 12 minutes: it is down, or still at that one
        ([(200_000, 1, 900)], 86_400, True),  # for days: nothing is left in the day that is looked at
        ([(500, 60, 200_000), (200, 60, 90_000), (10, 60, 120_000)], 90, True),  # it runs behind, and stays there
        ([(5, 1, None)], 4, False),  # heartbeats alone
    ],
)  # fmt: skip
def test_a_backlog_is_what_lasts_and_a_restart_is_none(
    spark: SparkSession,
    batches: Batches,
    behind_s: float,
    goes_off: bool,  # noqa: FBT001
) -> None:
    value, is_off = alert_value(looked_at(spark, FINE | {"sessionize": batches}), "backlog")
    assert (value == pytest.approx(behind_s, abs=0.1), is_off) == (True, goes_off)


@pytest.mark.parametrize(
    ("queries", "furthest", "behind_s"),
    [
        (FINE, "rollup", 4),
        (FINE | {"sessionize": [(300, 60, 90_000), (10, 60, 95_000)]}, "sessionize", 90),
        (FINE | {"archive": [(300, 60, 90_000), (10, 60, 95_000)]}, "archive", 90),
        (FINE | {"rollup": [(300, 60, 90_000), (10, 60, 95_000)]}, "rollup", 90),
        # Ends were written after its last micro-batch, and it has had none since: it hangs, or is at that one still.
        (FINE | {"sessionize": [(1450, 1, 900), (5, 1, 900)], "rollup": [(1500, 1, 900)]}, "rollup", 1450),
        (FINE | {"sessionize": [(500, 1, 900), (5, 1, 900)], "rollup": [(1500, 1, 900)]}, "archive", 1.5),  # not for long
        # Likewise with messages, by a minute more: ingest times are of another clock.
        (FINE | {"sessionize": [(1400, 1, 900), (5, 1, 900)], "archive": [(1500, 1, 900)]}, "archive", 1460.9),
        ({"sessionize": [(1400, 1, 900), (5, 1, None)]}, "archive", 1460.9),  # never begun
        # A night: all that came is taken, by archive even before sessionize took it.
        ({"sessionize": [(3590, 1, 20_000), (5, 1, None)], "archive": [(3600, 1, 900)], "rollup": [(3580, 1, 900)]}, "sessionize", 0),
        # The job is down: not the one that was last is told, nor the one that had something to do.
        ({"sessionize": [(1500, 1, 900)], "archive": [(1600, 1, 900)], "rollup": [(1505, 1, 900)]}, "sessionize", 1500),
        ({}, None, 0),
    ],
)  # fmt: skip
def test_the_query_that_is_furthest_behind_is_told_with_its_name(
    spark: SparkSession, queries: dict[str, Batches], furthest: str | None, behind_s: float
) -> None:
    looked_at(spark, queries)
    value, is_off = alert_value(spark, "backlog")
    assert (value == pytest.approx(behind_s, abs=0.1), is_off) == (True, behind_s > 60)
    assert spark.table("freshness").first().behind_query == furthest


@pytest.mark.parametrize(
    ("heartbeat", "beat_s", "missed", "goes_off"),
    [("30s", 60, 1.5, False), ("30s", 150, 4.5, True), ("2m", 150, 1.125, False), ("500ms", 60, 90, True), ("500ms", 12, 0, False), ("1h", 60, 0.0125, False)],
)  # fmt: skip
def test_heartbeats_are_missed_by_their_own_interval(
    spark: SparkSession,
    heartbeat: str,
    beat_s: float,
    missed: float,
    goes_off: bool,  # noqa: FBT001
) -> None:
    value, is_off = alert_value(looked_at(spark, FINE, beat_s), "stale_heartbeats", heartbeat)
    assert (value == pytest.approx(missed, abs=0.01), is_off) == (True, goes_off)


@pytest.mark.parametrize(("messages", "goes_off"), [(99, False), (100, True)])
def test_a_large_share_of_few_messages_is_not_told(
    spark: SparkSession,
    messages: int,
    goes_off: bool,  # noqa: FBT001
) -> None:
    row = (datetime.now(UTC), messages, messages // 2)
    health = spark.createDataFrame([row], "minute timestamp, messages bigint, quarantined bigint")
    health.createOrReplaceTempView("stream_health")
    assert alert_value(spark, "quarantine_share")[1] is goes_off


def test_before_the_first_message_its_absence_alone_is_told(spark: SparkSession, tmp_path: Path) -> None:
    location = TableLocation(tmp_path)
    empty_tables(spark, location, owner="test")
    create_views(spark, location)
    found = {}
    for key, alert in ALERTS.items():
        (row,) = spark.sql(alert["query_text"].replace(SCHEMA, "")).collect()
        found[key] = row[0] > alert["evaluation"]["threshold"]["value"]["double_value"]
    assert found == {key: key == "no_data" for key in ALERTS}
