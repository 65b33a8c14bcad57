"""Maintenance on real tables: the job's own statements, and that what runs beside them is left whole."""

import json
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionization.ops import maintain as ops
from sessionization.ops.input_files import delete_read_files
from sessionization.ops.settings import MaintainSettings
from sessionization.spark.checkpoint import ARCHIVE, SESSIONIZE
from sessionization.spark.progress import wall_clock_ms
from sessionization.spark.source import file_messages, ticks
from sessionization.spark.table_home import TableHome, create_tables
from sessionization.spark.tables import (
    QUARANTINE,
    RAW_EVENTS,
    RETENTION_PROPERTIES,
    STREAM_PROGRESS,
    TABLES,
    retention_ms_of,
)

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

MESSAGE = (
    "'pc_sessions' AS stream", "CAST(NULL AS int) AS partition", "CAST(NULL AS bigint) AS offset", "'f' AS file",
    "current_timestamp() AS ingested_at", "X'FF' AS value", "date_sub(current_date(), CAST(id % 2 AS int)) AS ingest_date",
)  # fmt: skip


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
    for _ in range(2):  # a file of today and one of yesterday
        home.append(spark.range(0, 2, 1, 1).selectExpr(*MESSAGE), RAW_EVENTS)
    said: list[str] = []
    ops.maintain(settings.model_copy(update={"retention": 8 * DAY_MS}), said.append, threading.Event())
    rows = home.read(spark.read, RAW_EVENTS).selectExpr(
        "ingest_date = current_date() AS today", "_metadata.file_path AS at"
    )
    counted = rows.groupBy("today").agg(F.countDistinct("at").alias("files"), F.count("*").alias("messages"))
    assert {(row.today, row.files, row.messages) for row in counted.collect()} == {(False, 1, 2), (True, 2, 2)}
    assert said[-1] == "VACUUM of stream_progress is done"
    assert f"OPTIMIZE of {QUARANTINE.name} is done" in said
    for table in TABLES:
        kept = {retention_ms_of(home.properties(spark, table), key) for key in RETENTION_PROPERTIES}
        assert kept == {6 * HOUR_MS if table is STREAM_PROGRESS else 8 * DAY_MS}


def test_input_files_that_both_queries_have_read_are_deleted(spark: SparkSession, tmp_path: Path) -> None:
    """The real engine's own logs: what `delete_read_files` takes for read is what was read."""
    checkpoints = tmp_path / "check points"
    stream = tmp_path / "in put" / "pc_sessions"
    for folder in (checkpoints, stream):
        folder.mkdir(parents=True)
    fixed = {"fixed": {"source": "files", "input": str(stream.parent)}}
    (checkpoints / "layout.json").write_text(json.dumps(fixed))

    def read(query: str) -> None:
        lines = file_messages(spark, stream.parent)
        if query == SESSIONIZE:
            lines = lines.union(
                ticks(spark).selectExpr(*(f"CAST(NULL AS {f.dataType.simpleString()})" for f in lines.schema))
            )
        writing = lines.writeStream.foreachBatch(lambda batch, _: batch.count()).trigger(once=True)
        writing.option("checkpointLocation", str(checkpoints / query)).start().awaitTermination(60)

    def deleted() -> int:
        return delete_read_files(checkpoints, 0, wall_clock_ms() + HOUR_MS, threading.Event())

    (stream / "a ä%.json").write_text("{}\n")
    read(SESSIONIZE)
    assert deleted() == 0
    (stream / "b.json").write_text("{}\n")
    read(ARCHIVE)
    assert deleted() == 1
    assert [file.name for file in stream.iterdir()] == ["b.json"]
    read(SESSIONIZE)
    assert deleted() == 1
