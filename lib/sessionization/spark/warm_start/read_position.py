"""Where the job before left off: what forbids a warm start, and from where it reads on. The tables tell; nothing is changed."""

import os
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionization.clock import utc
from sessionization.errors import ConfigurationError
from sessionization.spark.input.kafka_source import client_options
from sessionization.spark.input.parse import STREAMS
from sessionization.spark.input.source import input_files
from sessionization.spark.input.topic_offsets import EARLIEST, Offsets, TopicRange, read_topic_range
from sessionization.spark.job_context import JobContext
from sessionization.spark.output import changes_topic
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import RAW_EVENTS, SESSION_CHANGES

_SCRATCH = "topic_ends"
_NAMED = 3


def refuse_unlanded_changes(context: JobContext) -> None:
    """A session whose Start is in the topic alone would be forgotten, and land afterwards as one that lives for ever.

    Raises `ConfigurationError`.
    """
    spark, output_topic = context.spark, context.settings.output_topic
    table = context.location.read(spark.read, SESSION_CHANGES)
    brokers, scratch = client_options(spark, context.settings), context.checkpoint.folder / _SCRATCH
    if behind := changes_topic.count_unlanded_partitions(spark, table, brokers, output_topic, scratch):
        msg = (
            f"--from-sessions: {SESSION_CHANGES.name} lacks the newest changes of {behind:,} partitions of "
            f"{output_topic}: let land_changes take all that is in that topic, then start again with the same options"
        )
        raise ConfigurationError(msg)


def refuse_files_already_read(spark: SparkSession, folder: Path, location: TableLocation) -> None:
    """A new checkpoint reads every file of its input: those that were read before would be doubled.

    Of a file from before the oldest one that `raw_events` has rows of it cannot be told any more whether it was read: rows
    are deleted there by retention.

    Raises `ConfigurationError`.
    """
    files = list(input_files(folder))
    if not files:
        return
    names = _read_before(spark, files, location)
    if names:
        msg = (
            f"--input {folder} holds {len(names):,} files whose messages the tables have ({_some(names)}): "
            "move them away, or give a new --input folder; --from-sessions would read them again"
        )
        raise ConfigurationError(msg)
    known_since_ms = _known_since_ms(spark, location)
    old = sorted(str(file) for file in files if file.stat().st_mtime_ns // 1_000_000 < known_since_ms)
    if old:
        since = utc(known_since_ms).isoformat(timespec="milliseconds")
        msg = (
            f"--input {folder} holds {len(old):,} files from before {since}, since when {RAW_EVENTS.name} knows what was read "
            f"({_some(old)}): move them away, or give a new --input folder; touch those that surely were not read"
        )
        raise ConfigurationError(msg)


def next_offsets(context: JobContext) -> Offsets | None:
    """Where each partition of the topics is read on: after the last message of it that `raw_events` has.

    Of a partition of which it has none, from the oldest message on that it has of any: what came before that was deleted
    there, or came before the first start with `--starting-offsets latest`.

    Returns:
        An offset for every partition that is there; None where `raw_events` has nothing of a topic.

    Raises `ConfigurationError` where a partition does not reach as far as `raw_events` does: of other offsets nothing fits.
    """
    raw = context.location.read(context.spark.read, RAW_EVENTS).where("partition IS NOT NULL")
    oldest = F.unix_millis(F.min("ingested_at"))
    rows = raw.groupBy("stream", "partition").agg(F.max("offset").alias("last"), oldest.alias("oldest_ms")).collect()
    if not rows:
        return None
    there = _read_input_range(context, min(row.oldest_ms for row in rows))
    starts = there.since
    for row in sorted(rows):
        if there.ends.get(row.stream, {}).get(row.partition, 0) <= row.last:
            msg = (
                f"--from-sessions: partition {row.partition} of {row.stream} does not reach offset {row.last}, of which "
                f"{RAW_EVENTS.name} has the message: give the brokers that have it; if the topic was made anew, begin with a "
                "new --checkpoints folder and an empty location for the tables"
            )
            raise ConfigurationError(msg)
        starts[row.stream][row.partition] = row.last + 1
    return starts


def with_new_partitions(context: JobContext, starts: Offsets) -> Offsets:
    """Add the partitions that are new since, from their first message: Spark asks for all that are there."""
    ends = _read_input_range(context, 0).ends
    return {
        topic: {partition: starts.get(topic, {}).get(partition, EARLIEST) for partition in partitions}
        for topic, partitions in ends.items()
    }


def _read_input_range(context: JobContext, since_ms: int) -> TopicRange:
    options = client_options(context.spark, context.settings)
    return read_topic_range(context.spark, options, STREAMS, since_ms, context.checkpoint.folder / _SCRATCH)


def _read_before(spark: SparkSession, files: list[Path], location: TableLocation) -> list[str]:
    """Those of the files that `raw_events` has messages of; there a file is named by its URI, in which it is escaped.

    Stream and name tell, for the folder may have been moved or copied since; no name is used twice.
    """
    named = {f"{file.parent.name}/{file.name}": os.path.normpath(file) for file in files}
    there = spark.createDataFrame([(name,) for name in named], "file string")
    path = F.regexp_extract("file", "[^/]+/[^/]+$", 0)
    # That function reads forms, in which a plus is a space.
    unescaped = F.try_url_decode(F.regexp_replace(path, r"\+", "%2B"))
    read = (
        location.read(spark.read, RAW_EVENTS)
        .where("file IS NOT NULL")
        .select(F.coalesce(unescaped, path).alias("file"))
        .distinct()
    )
    return [named[row.file] for row in read.join(there, "file", "semi").orderBy("file").collect()]


def _known_since_ms(spark: SparkSession, location: TableLocation) -> int:
    """Since when `raw_events` has what came of files: its oldest row; where it has none, since the newest event of a change."""
    of_files = location.read(spark.read, RAW_EVENTS).where("file IS NOT NULL")
    oldest_ms = of_files.agg(F.unix_millis(F.min("ingested_at"))).collect()[0][0]
    if oldest_ms is not None:
        return int(oldest_ms)
    changes = location.read(spark.read, SESSION_CHANGES)
    newest_ms = changes.agg(F.unix_millis(F.max("ingested_at"))).collect()[0][0]
    return 0 if newest_ms is None else int(newest_ms) + 1


def _some(names: list[str]) -> str:
    return f"{', '.join(names[:_NAMED])}{', ...' if len(names) > _NAMED else ''}"
