"""The dashboard and the alerts on tables that the job wrote: every query returns rows."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.views import create_views
from tests.bundle.prod import ALERTS, SCHEMA
from tests.support.dashboards import dataset_sql, widget_sql, widgets
from tools.bundle.target import ROOT

DASHBOARD = json.loads((ROOT / "bundles/session_overview.lvdash.json").read_text(encoding="utf-8"))
DATASETS = {dataset["name"]: dataset_sql(dataset) for dataset in DASHBOARD["datasets"]}


pytestmark = [pytest.mark.job, pytest.mark.long]


@pytest.fixture(scope="module")
def spark_on_demo(demo: Path, spark: SparkSession) -> SparkSession:
    create_views(spark, TableLocation(demo / "warehouse"))
    return spark


@pytest.mark.parametrize("widget", list(widgets(DASHBOARD)), ids=lambda widget: widget["name"])
def test_every_widget_has_values(spark_on_demo: SparkSession, widget: dict[str, Any]) -> None:
    for query in (entry["query"] for entry in widget["queries"]):
        rows = spark_on_demo.sql(widget_sql(query, DATASETS[query["datasetName"]])).collect()
        for field in query["fields"]:
            assert any(row[field["name"]] is not None for row in rows), field["name"]


@pytest.mark.parametrize("key", sorted(ALERTS))
def test_every_alert_returns_a_number(spark_on_demo: SparkSession, key: str) -> None:
    (row,) = spark_on_demo.sql(ALERTS[key]["query_text"].replace(SCHEMA, "")).collect()
    assert float(row[ALERTS[key]["evaluation"]["source"]["name"]]) >= 0
