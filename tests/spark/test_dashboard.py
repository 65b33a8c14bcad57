"""What people see: every query of the dashboard and of the alerts runs on the tables, and returns rows."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sessionization.spark.table_home import TableHome, create_tables
from sessionization.spark.tables import QUARANTINE, RAW_EVENTS, SESSION_CHANGES, SESSIONS, STREAM_PROGRESS, Table
from sessionization.spark.views import create_views
from tests.bundle.dashboards import dataset_sql, widget_sql, widgets
from tests.bundle.resolve import resolve
from tests.bundle.sources import ROOT, read_sources

DASHBOARD = json.loads((ROOT / "bundles/evening.lvdash.json").read_text(encoding="utf-8"))
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
            progress | {"query": "archive", "batch_id": 1, "quarantined": 1},
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


def test_before_the_first_message_its_absence_alone_is_told(spark: SparkSession, tmp_path: Path) -> None:
    home = TableHome(tmp_path)
    create_tables(spark, home, owner="test", may_create=True)
    create_views(spark, home)
    found = {}
    for key, alert in ALERTS.items():
        (row,) = spark.sql(alert["query_text"].replace(SCHEMA, "")).collect()
        found[key] = row[0] > alert["evaluation"]["threshold"]["value"]["double_value"]
    assert found == {"stale_heartbeats": False, "backlog": False, "quarantine_share": False, "no_data": True}
