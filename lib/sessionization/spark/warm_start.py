"""Begin a checkpoint with the sessions that the tables know, after one that was lost or that had other device groups."""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from sessionization.core.state import Rules
from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.files import write_whole
from sessionization.settings import SessionizeSettings
from sessionization.spark import rollup, topic
from sessionization.spark.checkpoint import SESSIONIZE, Checkpoint
from sessionization.spark.codec import STATE_SCHEMA, packed_seed
from sessionization.spark.kafka import TakenOffsets, client_options
from sessionization.spark.offsets import newest_committed
from sessionization.spark.parse import STREAMS
from sessionization.spark.processor import GROUPING_KEY
from sessionization.spark.table_home import TableHome
from sessionization.spark.tables import RAW_EVENTS, SESSION_CHANGES, SESSIONS

_SEED = "seed"
_TAKEN = "taken.json"
_TOPIC_ENDS = "topic_ends"
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Before:
    """What a checkpoint begins with: sessions by grouping key (`codec.packed_seed`), and what was read of the topics."""

    sessions: DataFrame | None = None
    taken: TakenOffsets | None = None


NOTHING_BEFORE = Before()


def warm_start(spark: SparkSession, settings: SessionizeSettings, checkpoint: Checkpoint, home: TableHome) -> Before:
    """What the queries of a checkpoint that was begun with `--from-sessions` begin with; nothing for any other.

    It is made once, before any query has begun a micro-batch, and kept until the session query is done with its first:
    repeated, that must be the same, and what `archive` takes from then on is new to both.

    Raises `ConfigurationError` where the input folder holds files whose messages the tables have, and with `--sink kafka`
    where the topic holds changes that they have not.
    """
    if not checkpoint.is_warm:
        return NOTHING_BEFORE
    query, seed = checkpoint.folder / SESSIONIZE, checkpoint.folder / _SEED
    taken = checkpoint.folder / _TAKEN
    if not checkpoint.is_used:
        if settings.sink == "kafka":
            _refuse_not_landed(spark, settings, checkpoint, home)
        if settings.input is not None:
            _refuse_read_files(spark, settings.input, home)
        else:
            write_whole(taken, json.dumps(_taken(spark, home)))
        catch_up(spark, home)
        sessions = remembered(spark, home, checkpoint)
        sessions.write.mode("overwrite").parquet(str(seed))
    if newest_committed(query) >= 0:
        shutil.rmtree(seed, ignore_errors=True)
    offsets = _read_taken(taken) if taken.exists() else None
    return Before(spark.read.parquet(str(seed)) if seed.exists() else None, offsets)


def catch_up(spark: SparkSession, home: TableHome) -> None:
    """Bring `sessions` up to date: the job that wrote it may have ended before its last changes were merged."""
    changes = home.read(spark.read, SESSION_CHANGES).where("change != 'heartbeat'")
    newest = home.read(spark.read, SESSIONS).agg(F.max("updated_at")).first()
    if newest is not None and newest[0] is not None:
        day = home.read(spark.read, SESSIONS).agg(F.date_sub(F.to_date(F.max("updated_at")), 1).cast("string")).first()
        assert day is not None
        changes = changes.where(F.col("change_date") >= F.lit(day[0]).cast("date"))
    rollup.merge(home.delta_table(spark, SESSIONS), changes)


def remembered(spark: SparkSession, home: TableHome, checkpoint: Checkpoint) -> DataFrame:
    """What a job would remember now that had gone on: live sessions, and those that were closed of late.

    Returns:
        A row per grouping key: `grouping_key`, `seed` (`codec.packed_seed`). Heartbeats go on after the newest change.
    """
    rules = checkpoint.in_force.rules
    changes = home.read(spark.read, SESSION_CHANGES)
    day = F.lit(changes.agg(F.max("change_date").cast("string")).collect()[0][0]).cast("date")
    newest = changes.where(F.col("change_date") == day).agg(F.unix_millis(F.max("processed_at"))).collect()[0][0]
    entries = _entries(home.read(spark.read, SESSIONS), newest or 0, rules)
    return (
        entries.withColumn(GROUPING_KEY, checkpoint.layout.grouping_key())
        .groupBy(GROUPING_KEY)
        .agg(packed_seed(newest or 0).alias("seed"))
    )


def _entries(sessions: DataFrame, now_ms: int, rules: Rules) -> DataFrame:
    """Rows of `device_id`, `session_id` and `STATE_SCHEMA`, for what has not been forgotten."""
    known = sessions.where("started_at IS NOT NULL").withColumn("since_ms", F.unix_millis("updated_at"))
    is_live = F.col("status") == "live"
    recent = known.where(is_live | (F.col("since_ms") > now_ms - rules.late_retention_ms))
    # A session that is later than the live one, or one more than the bound, is from after something was forgotten.
    device = Window.partitionBy("device_id")
    by_age = device.orderBy(is_live.desc(), F.desc("since_ms"), "session_id")
    order = F.struct("started_at", "session_id")
    ranked = recent.withColumn("rank", F.row_number().over(by_age)).withColumn(
        "live_order", F.max(F.when(is_live, order)).over(device)
    )
    kept = ranked.where(is_live | F.col("live_order").isNull() | (order < F.col("live_order"))).where(
        F.col("rank") <= rules.max_sessions_per_device
    )

    def closed(column: Column) -> Column:
        return F.when(~is_live, column)

    fields = {
        "status": F.when(is_live, "live").otherwise("closed"),
        "platform": F.col("platform"),
        "account_id": F.col("account_id"),
        "started_ms": F.unix_millis("started_at"),
        "opened_ms": F.when(is_live, F.col("since_ms")),
        "ended_ms": closed(F.unix_millis("ended_at")),
        "end_reason": closed(F.col("end_reason")),
        "revision": closed(F.col("revision")),
        "foreground_s": closed(F.col("foreground_s")),
        "since_ms": closed(F.col("since_ms")),
        "place": closed(F.lit(rules.max_sessions_per_device) - F.col("rank")),
    }
    return kept.select("device_id", "session_id", *(fields[name].alias(name) for name in STATE_SCHEMA.names))


def _refuse_read_files(spark: SparkSession, folder: Path, home: TableHome) -> None:
    """A new checkpoint reads every file of its input: those that were read before would be doubled."""
    files = [file for stream in STREAMS for file in (folder.absolute() / stream).glob("[!._]*.json")]
    names = _read_before(spark, files, home) if files else []
    if names:
        msg = (
            f"--input {folder} holds {len(names):,} files whose messages the tables have ({', '.join(names[:_NAMED])}"
            f"{', ...' if len(names) > _NAMED else ''}): move them away, or give a new --input folder; "
            "--from-sessions would read them again"
        )
        raise ConfigurationError(msg)


def _refuse_not_landed(
    spark: SparkSession, settings: SessionizeSettings, checkpoint: Checkpoint, home: TableHome
) -> None:
    """A session whose Start is in the topic alone would be forgotten, and land afterwards as one that lives for ever."""
    table = home.read(spark.read, SESSION_CHANGES)
    brokers = client_options(spark, settings)
    if behind := topic.not_landed(spark, table, brokers, checkpoint.folder / _TOPIC_ENDS):
        msg = (
            f"--from-sessions: {SESSION_CHANGES.name} lacks the newest changes of {behind:,} partitions of "
            f"{topic.OUTPUT_TOPIC}: let land_changes take all that is in that topic, then start again with the same options"
        )
        raise ConfigurationError(msg)


def _read_before(spark: SparkSession, files: list[Path], home: TableHome) -> list[str]:
    """Those of the files that `raw_events` has messages of; there a file is named by its URI, in which it is escaped."""
    since = min(file.stat().st_mtime for file in files)
    there = spark.createDataFrame([(os.path.normpath(file),) for file in files], "file string")
    path = F.regexp_replace("file", "^[a-z]+:/+", "/")
    # That function reads forms, in which a plus is a space.
    unescaped = F.try_url_decode(F.regexp_replace(path, r"\+", "%2B"))
    read = (
        home.read(spark.read, RAW_EVENTS)
        .where(F.col("ingest_date") >= F.date_sub(F.to_date(F.timestamp_seconds(F.lit(since))), 1))
        .select(F.coalesce(unescaped, path).alias("file"))
        .distinct()
    )
    return [row.file for row in read.join(there, "file", "semi").orderBy("file").collect()]


def _taken(spark: SparkSession, home: TableHome) -> dict[str, object]:
    raw = home.read(spark.read, RAW_EVENTS).where("partition IS NOT NULL")
    newest = raw.groupBy("stream", "partition").agg(
        F.max("offset").alias("offset"), F.unix_millis(F.max_by("ingested_at", "offset")).alias("at_ms")
    )
    rows = newest.collect()
    last: dict[str, dict[str, int]] = {}
    for row in rows:
        last.setdefault(row.stream, {})[str(row.partition)] = row.offset
    return {"last": last, "since_ms": min((row.at_ms for row in rows), default=0)}


def _read_taken(file: Path) -> TakenOffsets:
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
        last = {
            topic: {int(partition): int(offset) for partition, offset in partitions.items()}
            for topic, partitions in said["last"].items()
        }
        return TakenOffsets(last, int(said["since_ms"]))
    except (OSError, ValueError, LookupError, AttributeError) as error:
        msg = f"{file} is not readable ({error}): restore it from a backup; without it messages would be read again"
        raise CheckpointError(msg) from error
