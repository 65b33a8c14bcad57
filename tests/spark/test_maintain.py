"""Maintenance on real tables: the job's own statements, and that what runs beside them is left whole."""

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionization.ops import maintain as ops
from sessionization.ops.settings import MaintainSettings
from sessionization.spark.table_home import TableHome, create_tables
from sessionization.spark.tables import QUARANTINE, RAW_EVENTS

MESSAGE = (
    "SELECT 'pc_sessions' AS stream, CAST(NULL AS int) AS partition, CAST(NULL AS bigint) AS offset, 'f' AS file,"
    " current_timestamp() AS ingested_at, X'FF' AS value, {day} AS ingest_date"
)


@pytest.fixture
def settings(tmp_path: Path) -> MaintainSettings:
    return MaintainSettings(warehouse=tmp_path / "warehouse", checkpoints=tmp_path / "checkpoints")


def test_past_days_become_one_file_and_no_row_is_lost(
    spark: SparkSession, settings: MaintainSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ops, "spark_session", lambda _log: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    home = TableHome(settings.warehouse)
    create_tables(spark, home, owner="test", may_create=True)
    for day in ("date_sub(current_date(), 1)", "date_sub(current_date(), 1)", "current_date()", "current_date()"):
        home.append(spark.sql(MESSAGE.format(day=day)), RAW_EVENTS)
    said: list[str] = []
    ops.maintain(settings, said.append, threading.Event())
    rows = home.read(spark.read, RAW_EVENTS).selectExpr(
        "ingest_date = current_date() AS today", "_metadata.file_path AS at"
    )
    counted = rows.groupBy("today").agg(F.countDistinct("at").alias("files"), F.count("*").alias("messages"))
    assert {(row.today, row.files, row.messages) for row in counted.collect()} == {(False, 1, 2), (True, 2, 2)}
    assert said[-1] == "VACUUM of stream_progress is done"
    assert f"OPTIMIZE of {QUARANTINE.name} is done" in said
