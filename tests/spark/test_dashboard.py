"""What people see: every query of the dashboard and of the alerts runs on the tables, and returns rows."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sessionization.spark.table_home import TableHome, create_tables
from sessionization.spark.tables import (
    QUARANTINE,
    RAW_EVENTS,
    SESSION_CHANGES,
    SESSIONS,
    STREAM_PROGRESS,
    TABLES,
    Table,
)
from sessionization.spark.views import FRESHNESS, create_views
from tests.bundle.dashboards import dataset_sql, widget_sql, widgets
from tests.bundle.resolve import resolve
from tests.bundle.sources import ROOT, read_sources

DASHBOARD = json.loads((ROOT / "bundles/session_overview.lvdash.json").read_text(encoding="utf-8"))
ALERTS = resolve(read_sources(ROOT), "prod").resources["alerts"]
SCHEMA = "`main`.`gaming_sessions_prod`."


@pytest.fixture(scope="module")
def evening(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """A minute of an evening: one session live, one ended, a message in quarantine, and the views over it."""
    home = TableHome(tmp_path_factory.mktemp("warehouse"))
    create_tables(spark, home, owner="test", may_create=True)
    now = datetime.now(UTC)
    began, beat = now - timedelta(minutes=2), now - timedelta(seconds=20)
    session: dict[str, Any] = {"device_id": "d1", "session_id": 1, "platform": "pc", "revision": 0, "started_at": began}
    change = session | {"processed_at": began, "change_date": began.date(), "duration_ms": 0}
    other = {"session_id": 2, "platform": "console"}
    end = {"change": "ended", "end_reason": "reported", "ended_at": beat, "processed_at": beat}
    message = {"stream": "pc_sessions", "ingested_at": beat, "value": b"{", "ingest_date": beat.date()}
    progress = {"processed_at": beat, "rows_in": 4, "batch_ms": 900, "latency_p50_ms": 800, "latency_p99_ms": 950}
    rows: dict[Table, list[dict[str, Any]]] = {
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
    for table, of_table in rows.items():
        values = [tuple(row.get(name) for name in table.column_names) for row in of_table]
        home.append(spark.createDataFrame(values, table.schema).coalesce(1), table)
    create_views(spark, home)
    return spark


@pytest.mark.parametrize("dataset", DASHBOARD["datasets"], ids=lambda dataset: dataset["name"])
def test_every_dataset_returns_rows(evening: SparkSession, dataset: dict[str, Any]) -> None:
    assert evening.sql(dataset_sql(dataset)).limit(1).collect()


@pytest.mark.parametrize("widget", list(widgets(DASHBOARD)), ids=lambda widget: widget["name"])
def test_every_widget_gets_what_it_shows(evening: SparkSession, widget: dict[str, Any]) -> None:
    datasets = {dataset["name"]: dataset_sql(dataset) for dataset in DASHBOARD["datasets"]}
    for query in (entry["query"] for entry in widget["queries"]):
        rows = evening.sql(widget_sql(query, datasets[query["datasetName"]])).limit(1).collect()
        assert rows
        assert list(rows[0].asDict()) == [field["name"] for field in query["fields"]]


@pytest.mark.parametrize("key", sorted(ALERTS))
def test_every_alert_finds_the_column_that_it_looks_at(evening: SparkSession, key: str) -> None:
    text = ALERTS[key]["query_text"]
    assert SCHEMA in text, "an alert names catalog and schema itself"
    (row,) = evening.sql(text.replace(SCHEMA, "")).collect()
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


def looked_at(
    spark: SparkSession, batches: list[tuple[float, float, int | None]], beat_s: float | None = None
) -> SparkSession:
    """The view `freshness` over micro-batches that were done so many seconds ago, took so long, and were so late."""
    now = datetime.now(UTC)
    rows = [
        {
            "query": "sessionize", "batch_id": number, "rows_in": 1, "latency_p99_ms": late_ms,
            "processed_at": now - timedelta(seconds=done_s + took_s), "batch_ms": int(took_s * 1000),
        }
        for number, (done_s, took_s, late_ms) in enumerate(batches)
    ]  # fmt: skip
    live = [{"status": "live", "updated_at": now - timedelta(hours=1)}] if beat_s is not None else []
    beats = [{"change": "heartbeat", "processed_at": now - timedelta(seconds=beat_s or 0), "change_date": now.date()}]
    for table, of_table in ((STREAM_PROGRESS, rows), (SESSIONS, live), (SESSION_CHANGES, beats)):
        values = [tuple(row.get(name) for name in table.column_names) for row in of_table]
        spark.createDataFrame(values, table.schema).createOrReplaceTempView(f"some_{table.name}")
    sql = FRESHNESS.sql.format_map({table.name: f"some_{table.name}" for table in TABLES})
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW freshness AS {sql}")
    return spark


@pytest.mark.parametrize(
    ("batches", "behind_s", "goes_off"),
    [
        ([(5, 1, 900)], 0.9, False),
        ([(480, 1, 900), (9, 300, 460_000), (8, 1, 1_200)], 0.9, False),  # a restart, eight minutes without the job
        ([(1500, 1, 900), (9, 300, 1_700_000), (8, 1, 1_200)], 1.2, False),  # an outage, and caught up
        ([(3600, 1, 900), (30, 1500, 3_500_000)], 3_500, True),  # its first micro-batch took 25 minutes
        ([(720, 1, 900)], 720, True),  # none is done for 12 minutes: it is down, or still at that one
        ([(500, 60, 200_000), (200, 60, 90_000), (10, 60, 120_000)], 90, True),  # it runs behind, and stays there
        ([(5, 1, None)], 0, False),  # heartbeats alone
        ([], 0, False),  # never begun
    ],
)  # fmt: skip
def test_a_backlog_is_what_lasts_and_a_restart_is_none(
    spark: SparkSession,
    batches: list[tuple[float, float, int | None]],
    behind_s: float,
    goes_off: bool,  # noqa: FBT001
) -> None:
    value, is_off = alert_value(looked_at(spark, batches), "backlog")
    assert (value == pytest.approx(behind_s, abs=30), is_off) == (True, goes_off)


@pytest.mark.parametrize(
    ("heartbeat", "beat_s", "missed", "goes_off"),
    [("30s", 60, 2, False), ("30s", 150, 5, True), ("2m", 150, 1.25, False), ("500ms", 60, 120, True), ("1h", 60, 0, False)],
)  # fmt: skip
def test_heartbeats_are_missed_by_their_own_interval(
    spark: SparkSession,
    heartbeat: str,
    beat_s: float,
    missed: float,
    goes_off: bool,  # noqa: FBT001
) -> None:
    value, is_off = alert_value(looked_at(spark, [(5, 1, 900)], beat_s), "stale_heartbeats", heartbeat)
    assert (value == pytest.approx(missed, rel=0.5, abs=0.1), is_off) == (True, goes_off)


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
    home = TableHome(tmp_path)
    create_tables(spark, home, owner="test", may_create=True)
    create_views(spark, home)
    found = {}
    for key, alert in ALERTS.items():
        (row,) = spark.sql(alert["query_text"].replace(SCHEMA, "")).collect()
        found[key] = row[0] > alert["evaluation"]["threshold"]["value"]["double_value"]
    assert found == {"stale_heartbeats": False, "backlog": False, "quarantine_share": False, "no_data": True}
