"""Maintenance on real tables, with the job's own statements: it damages nothing that runs at the same time."""

import itertools
import os
import re
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionization.clock import wall_clock_ms
from sessionization.durations import DAY_MS, HOUR_MS
from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.ops import maintain as ops
from sessionization.ops.maintenance_settings import UNUSED_FILES_RETENTION_MS, MaintainSettings
from sessionization.spark.checkpoint.folder import ROLLUP
from sessionization.spark.engine.newest import newest_update_ms
from sessionization.spark.tables import location as location_module
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import (
    BACKFILL,
    QUARANTINE,
    RAW_EVENTS,
    RETENTION_PROPERTIES,
    SESSION_CHANGES,
    SESSIONS,
    STREAM_PROGRESS,
    TABLES,
    retention_ms_of,
)
from tests.support.checkpoint_folder import reopened
from tests.support.settings import settings_of
from tests.support.warehouse import append_sessions, empty_tables, frame_of

pytestmark = pytest.mark.spark

MESSAGE = (
    "'pc_sessions' AS stream", "CAST(NULL AS int) AS partition", "CAST(NULL AS bigint) AS offset", "'f' AS file",
    "current_timestamp() AS ingested_at", "X'FF' AS value",
    "date_sub(current_date(), element_at(array(0, 1, 31, 401), CAST(id AS int) + 1)) AS ingest_date",
)  # fmt: skip


@pytest.fixture
def settings(tmp_path: Path) -> MaintainSettings:
    return settings_of(MaintainSettings, warehouse=tmp_path / "warehouse", checkpoints=tmp_path / "checkpoints")


def test_tables_that_a_catalog_commits_to_are_refused_before_a_row_is_deleted(
    spark: SparkSession, settings: MaintainSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No catalog here commits by itself, so another feature of the real tables stands for it."""
    location = TableLocation(settings.tables.warehouse)
    empty_tables(spark, location, owner=reopened(settings.state.checkpoints).id)
    assert (settings.tables.warehouse / SESSIONS.name / "_delta_log").is_dir()
    before = set(settings.tables.warehouse.rglob("*/_delta_log/*"))
    monkeypatch.setattr(location_module, "_CATALOG_MANAGED", "delta.feature.deletionVectors")
    with pytest.raises(ConfigurationError, match=r"catalog itself commits to .*sessions.* nothing was changed"):
        ops.maintain(settings, lambda _: None, threading.Event())
    assert set(settings.tables.warehouse.rglob("*/_delta_log/*")) == before
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "19.0")
    location.refuse_catalog_managed(spark, TABLES)


def test_the_newest_update_is_found_without_reading_sessions_of_other_days(spark: SparkSession, tmp_path: Path) -> None:
    location, now_ms = TableLocation(tmp_path), wall_clock_ms()
    empty_tables(spark, location, owner="test")
    assert newest_update_ms(location.read(spark.read, SESSIONS)) is None
    for number, at_ms in enumerate((now_ms - 9 * DAY_MS, now_ms)):
        at = datetime.fromtimestamp(at_ms / 1_000, UTC)
        session = {"device_id": "d", "session_id": number, "platform": "pc", "status": "ended", "revision": 0}
        append_sessions(spark, location, [session | {"started_at": at, "ended_at": at, "updated_at": at}])
        assert newest_update_ms(location.read(spark.read, SESSIONS)) == at_ms
    old_day = datetime.fromtimestamp(now_ms / 1_000 - 9 * 86_400, UTC).date()
    (old_file,) = (tmp_path / "sessions").glob(f"_part={old_day}/*.parquet")
    old_file.unlink()
    assert newest_update_ms(location.read(spark.read, SESSIONS)) == now_ms


@pytest.mark.long
def test_whole_days_of_old_rows_are_deleted_without_being_read_and_past_days_are_compacted_once(
    spark: SparkSession, settings: MaintainSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of old heartbeats are removed beforehand, so reading them would fail."""
    location = TableLocation(settings.tables.warehouse)
    empty_tables(spark, location, owner=reopened(settings.state.checkpoints).id)
    table, now = settings.tables.warehouse / SESSION_CHANGES.name, datetime.now(UTC)
    kinds = {"started": {}, "heartbeat": {"beat": 1, "due_at": now}}
    for age, (kind, values) in itertools.product((0, 1, 1, 8, 401), kinds.items()):
        at = now - timedelta(days=age)
        change = values | {
            "device_id": "d", "session_id": age, "platform": "pc", "change": kind, "revision": 0, "processed_at": at,
            "change_date": at.date(),
        }  # fmt: skip
        location.append(frame_of(spark, SESSION_CHANGES, [change]), SESSION_CHANGES)
    for _ in range(2):  # two files of each day
        location.append(spark.range(0, 4, 1, 1).selectExpr(*MESSAGE), RAW_EVENTS)
    location.append(spark.range(0, 4, 1, 1).selectExpr(*MESSAGE, "'late' AS reason", "1L AS value_bytes"), QUARANTINE)
    long_ago = {"query": "rollup", "batch_id": 0, "processed_at": now - timedelta(days=401), "rows_in": 1}
    location.append(frame_of(spark, STREAM_PROGRESS, [long_ago]), STREAM_PROGRESS)
    location.overwrite(location.read(spark.read, SESSIONS), BACKFILL)
    for file in table.glob(f"change_date={now.date() - timedelta(days=8)}/change=heartbeat/*.parquet"):
        file.unlink()
    lines: list[str] = []
    retentions = {"retention_ms": 8 * DAY_MS, "message_retention_ms": 31 * DAY_MS - 1}
    ops.maintain(settings.model_copy(update=retentions), lines.append, threading.Event())
    rows = location.read(spark.read, SESSION_CHANGES).select("session_id", "change").collect()
    assert sorted((row.session_id, row.change) for row in rows) == [
        (0, "heartbeat"), (0, "started"), (1, "heartbeat"), (1, "heartbeat"), (1, "started"), (1, "started"),
        (8, "started"),
    ]  # fmt: skip
    rows = location.read(spark.read, RAW_EVENTS).selectExpr(
        "ingest_date = current_date() AS today", "_metadata.file_path AS at"
    )
    counted = rows.groupBy("today").agg(F.countDistinct("at").alias("files"), F.count("*").alias("messages"))
    assert {(row.today, row.files, row.messages) for row in counted.collect()} == {(False, 3, 4), (True, 2, 2)}
    assert lines[:5] == [
        "DELETE of session_changes is done, 2 rows",
        "DELETE of session_changes is done, 1 rows",
        "DELETE of raw_events is done, 2 rows",
        "DELETE of quarantine is done, 1 rows",
        "DELETE of stream_progress is done, 1 rows",
    ]
    assert f"OPTIMIZE of {QUARANTINE.name} is done" in lines
    assert lines[-1] == "VACUUM of sessions_backfill is done"
    for each in (*TABLES, BACKFILL):
        retentions_ms = {retention_ms_of(location.properties(spark, each), key) for key in RETENTION_PROPERTIES}
        assert retentions_ms == {6 * HOUR_MS if each in {SESSIONS, STREAM_PROGRESS} else 8 * DAY_MS}
    compacted = set(table.rglob("*.parquet"))
    monkeypatch.setattr(ops, "TABLES", (SESSION_CHANGES,))
    ops.maintain(settings, lines.append, threading.Event())
    assert set(table.rglob("*.parquet")) == compacted


def test_the_checkpoint_of_another_job_is_refused(spark: SparkSession, settings: MaintainSettings) -> None:
    empty_tables(spark, TableLocation(settings.tables.warehouse), owner="ours")
    theirs = reopened(settings.state.checkpoints).id
    lines: list[str] = []
    message = f"table session_changes in .* is written by another checkpoint \\(ours, not {theirs}\\): --checkpoints "
    with pytest.raises(CheckpointError, match=message):
        ops.maintain(settings, lines.append, threading.Event())
    assert lines == []


def rewrite(file: Path, old: str, new: str) -> None:
    """Change a file that Spark has written, and delete its checksum, which no longer matches."""
    text = re.sub(old, new, file.read_text(encoding="utf-8"))
    assert new in text
    file.write_text(text, encoding="utf-8")
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)


def test_maintenance_deletes_no_change_that_rollup_has_not_read(
    spark: SparkSession, settings: MaintainSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """rollup stopped eight days ago, and the changes that came then were compacted at once."""
    monkeypatch.setattr(ops, "TABLES", (SESSION_CHANGES,))
    location = TableLocation(settings.tables.warehouse)
    empty_tables(spark, location, owner=reopened(settings.state.checkpoints).id)
    rollup = settings.state.checkpoints / ROLLUP
    table = settings.tables.warehouse / SESSION_CHANGES.name
    yesterday = datetime.now(UTC) - timedelta(days=1)
    change = {
        "platform": "pc", "change": "started", "revision": 0, "duration_ms": 0, "processed_at": yesterday,
        "change_date": yesterday.date(), "session_id": 1,
    }  # fmt: skip

    def append_changes(*device_ids: str) -> None:
        """Append a change of each device, in a file of its own."""
        values = [change | {"device_id": device_id} for device_id in device_ids]
        rows = [tuple(row.get(name) for name in SESSION_CHANGES.column_names) for row in values]
        files = spark.sparkContext.parallelize(rows, len(rows))
        location.append(spark.createDataFrame(files, SESSION_CHANGES.schema), SESSION_CHANGES)

    def read() -> list[str]:
        devices: list[str] = []
        rows = location.read(spark.readStream.option("skipChangeCommits", "true"), SESSION_CHANGES)
        writing = rows.writeStream.foreachBatch(
            lambda batch, _: devices.extend(row.device_id for row in batch.collect())
        )
        query = writing.option("checkpointLocation", str(rollup)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        return sorted(devices)

    append_changes("read")
    assert read() == ["read"]
    append_changes("unread", "unread too")
    assert len(list(table.rglob("*.parquet"))) == 3
    location.delta_table(spark, SESSION_CHANGES).optimize().executeCompaction()
    long_ago_ms = wall_clock_ms() - 8 * DAY_MS
    rewrite(max((rollup / "offsets").glob("[0-9]*")), r'"batchTimestampMs":\d+', f'"batchTimestampMs":{long_ago_ms}')
    compaction = max((table / "_delta_log").glob("*.json"))
    rewrite(compaction, r'"deletionTimestamp":\d+', f'"deletionTimestamp":{long_ago_ms}')
    for file in table.rglob("*.parquet"):
        os.utime(file, ns=((long_ago_ms - DAY_MS) * 1_000_000,) * 2)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    lines: list[str] = []
    ops.maintain(settings, lines.append, threading.Event())
    assert "VACUUM of session_changes is done" in lines
    assert read() == ["unread", "unread too"]
    assert lines[0] == "rollup is 8 days behind in session_changes: unused files and log are kept for 12d"

    ops.maintain(settings, lines.append, threading.Event())
    retentions_ms = {retention_ms_of(location.properties(spark, SESSION_CHANGES), key) for key in RETENTION_PROPERTIES}
    assert retentions_ms == {7 * DAY_MS, UNUSED_FILES_RETENTION_MS}
    assert len(list(table.rglob("*.parquet"))) == 1, "what it has read goes"
