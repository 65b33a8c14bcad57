"""Empty tables, created once and then copied, because Delta takes seconds to create them; and rows for them."""

import shutil
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from sessionization.durations import DAY_MS, HOUR_MS
from sessionization.spark.checkpoint.folder import ROLLUP
from sessionization.spark.tables import rollup
from sessionization.spark.tables.creation import create_tables
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import QUARANTINE, SESSION_CHANGES, SESSIONS, STREAM_PROGRESS, Table

LOOKBACK_MS = rollup.lookback(7 * DAY_MS, 12 * HOUR_MS)
"""With the default settings."""
_OWNER = "the owner of the copy"


def merge_changes(spark: SparkSession, location: TableLocation, changes: DataFrame) -> None:
    """Merge changes into `sessions`, as the query `rollup` does."""
    oldest_ms = rollup.oldest_event_ms(changes)
    if oldest_ms is not None:
        since = rollup.search_since(oldest_ms, LOOKBACK_MS)
        rollup.merge(spark, location, changes, since, location.labels(spark))


def frame_of(
    spark: SparkSession, table: Table, rows: Iterable[Mapping[str, Any]], labels: Iterable[str] = ()
) -> DataFrame:
    """Rows of a table, with null in the columns that a row lacks; in one partition, so that queries move none."""
    schema = StructType([*table.schema, *(StructField(name, StringType()) for name in labels)])
    values = [tuple(row.get(name) for name in schema.names) for row in rows]
    return spark.createDataFrame(values, schema).coalesce(1)


def evening_rows(now: datetime) -> dict[Table, list[dict[str, Any]]]:
    """Rows of a minute of an evening: a live session, an ended session, a quarantined message."""
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
            session | {"status": "live", "updated_at": began, "_part": "live"},
            session | other | end | {"status": "ended", "updated_at": beat, "_part": began.date().isoformat()},
        ],
        QUARANTINE: [message | {"reason": "malformed_json"}],
        STREAM_PROGRESS: [
            progress
            | {"query": "sessionize", "batch_id": 1, "heartbeats": 1, "lateness_p50_ms": 9, "lateness_p99_ms": 9},
            progress | {"query": "archive", "batch_id": 1, "rows_in": 400, "quarantined": 80},
            progress | {"query": "rollup", "batch_id": 1, "reused_ids": 20},
        ],
    }


def append_sessions(spark: SparkSession, location: TableLocation, sessions: Iterable[Mapping[str, Any]]) -> None:
    """Append rows to `sessions`, a file for each part."""
    is_over, day = F.col("status") == "ended", F.coalesce("started_at", "ended_at").cast("date").cast("string")
    part = F.when(is_over, day).otherwise(rollup.LIVE_PART)
    rows = frame_of(spark, SESSIONS, sessions, location.labels(spark)).withColumn("_part", part)
    location.append(rows, SESSIONS)


def empty_tables(spark: SparkSession, location: TableLocation, *, owner: str) -> TableLocation:
    """Copy the tables that `create_tables` makes in an empty folder, owned by the checkpoint `owner`; return them."""
    assert location.warehouse is not None
    shutil.copytree(_template(spark), location.warehouse, dirs_exist_ok=True)
    for file in location.warehouse.glob("*/_delta_log/*"):
        if file.is_file():
            file.write_text(file.read_text(encoding="utf-8").replace(_OWNER, owner), encoding="utf-8")
    return location


_template_folders: list[TemporaryDirectory[str]] = []


@cache
def _template(spark: SparkSession) -> Path:
    _template_folders.append(TemporaryDirectory(prefix="tables with spaces-"))  # removed when Python exits
    folder = Path(_template_folders[-1].name)
    create_tables(spark, TableLocation(folder), owner=_OWNER)
    for checksum in folder.rglob(".*.crc"):  # the copies' content differs
        checksum.unlink()
    return folder


def catch_up(spark: SparkSession, location: TableLocation, checkpoints: Path) -> None:
    """Do what the query `rollup` does, until it has read everything."""
    rows = location.read(spark.readStream.option("skipChangeCommits", "true"), SESSION_CHANGES)
    merging = rows.where("change != 'heartbeat'").writeStream.foreachBatch(
        lambda batch, _: merge_changes(batch.sparkSession, location, batch)
    )
    query = merging.option("checkpointLocation", str(checkpoints / ROLLUP)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
