"""The source of messages: one DataFrame of unparsed messages, from files or Kafka."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.hadoop_path import AnyPath
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.input.folder_source import folder_lines
from sessionization.spark.input.kafka_source import kafka_messages
from sessionization.spark.input.stream_folders import ENDINGS, is_message_file
from sessionization.spark.input.topic_offsets import Offsets
from sessionization.streams import STREAMS

MAX_FILES_PER_MICRO_BATCH = 1_000
"""Limits one micro-batch, so that heartbeats continue while the job works off a backlog."""
_LATEST_INGEST_TIME = "2261-12-31T00:00:00Z"
"""Later times, as of a clock in another unit, overflow in pandas and Python."""


@dataclass(frozen=True, slots=True)
class TopicStart:
    """Where reading topics begins, and how many messages a micro-batch takes; `kafka_messages` explains the fields."""

    created_ms: int
    max_offsets: int | None
    starts: Offsets | None = None


def read_messages(spark: SparkSession, settings: SessionizeSettings, query: AnyPath, topics: TopicStart) -> DataFrame:
    """Stream the messages of the configured source.

    Args:
        spark: the session.
        settings: the source, and its options.
        query: the checkpoint of the query.
        topics: where a source of topics begins.

    Returns:
        The columns of `quarantine` but `reason`: `stream`, `partition`, `offset`, `file`, `ingested_at` (within 1970
        to 2261), `value` binary, `ingest_date` (of the micro-batch's clock, which is the job's own), `value_bytes`.
    """
    if settings.source == "kafka":
        records = kafka_messages(spark, settings, topics.created_ms, topics.max_offsets, topics.starts)
        return _with_own_date(records)
    assert settings.input is not None
    return file_messages(spark, settings.input, query)


def reads_folders(input_folder: AnyPath, query: AnyPath) -> bool:
    """Whether the files are read by `folder_source`, which needs paths; a URI is read by Spark's source of texts."""
    return isinstance(input_folder, Path) and isinstance(query, Path)


def file_messages(
    spark: SparkSession, input_folder: AnyPath, query: AnyPath, most_files: int = MAX_FILES_PER_MICRO_BATCH
) -> DataFrame:
    """Stream the lines of the files in the stream folders of `input_folder`, which end with one of `ENDINGS`.

    Either folder may be missing and appear later. A file must appear whole (written under another name or hidden,
    then renamed) and never change. The file's modification time is the ingest time of its lines.

    Returns:
        The columns of `read_messages`; `partition` and `offset` are null, and `value` is a line without its LF or CRLF.
        Blank lines are skipped.
    """
    if isinstance(input_folder, Path) and isinstance(query, Path):
        lines = folder_lines(spark, input_folder, query, most_files)
        ingested_at = F.timestamp_millis(F.least("modified_ms", F.lit(1 << 50)))
    else:
        lines = _uri_lines(spark, input_folder, most_files)
        ingested_at = F.col("ingested_at")
    return _with_own_date(
        lines.select(
            "stream",
            F.lit(None).cast("int").alias("partition"),
            F.lit(None).cast("bigint").alias("offset"),
            "file",
            ingested_at.alias("ingested_at"),
            "value",
            "value_bytes",
        )
    )


def _uri_lines(spark: SparkSession, input_folder: AnyPath, most_files: int) -> DataFrame:
    lines = (
        spark.readStream.format("text")
        .option("lineSep", "\n")
        .option("pathGlobFilter", f"*{{{','.join(ENDINGS)}}}")
        # Without this option a folder named like a partition (date=2026-11-21) ends the query. The last `where` drops
        # the files in such folders.
        .option("recursiveFileLookup", "true")
        .option("maxFilesPerTrigger", str(most_files))
        # Files of any time are read: the source judges their age by the newest one.
        .option("maxFileAge", "36500000d")
        # A file that ends the engine can be moved away.
        .option("ignoreMissingFiles", "true")
        .load(f"{_glob_escaped(input_folder.absolute())}/{{{','.join(STREAMS)}}}")
    )
    line = F.col("value").cast("binary")
    without_cr = F.when(F.endswith(line, F.lit(b"\r")), F.substring(line, F.lit(1), F.octet_length(line) - 1))
    file = F.col("_metadata.file_path")
    return (
        lines.where(F.expr(r"trim(BOTH ' \t\r' FROM value) != ''"))
        .select(
            F.regexp_extract(file, rf"/({'|'.join(STREAMS)})/[^/._][^/]*$", 1).alias("stream"),
            file.alias("file"),
            F.col("_metadata.file_modification_time").alias("ingested_at"),
            F.coalesce(without_cr, line).alias("value"),
        )
        .where("stream != ''")
        .withColumn("value_bytes", F.octet_length("value").cast("bigint"))
    )


def _with_own_date(messages: DataFrame) -> DataFrame:
    """Bound the ingest time, which any clock may have made, and add the date by which the tables are retained."""
    latest = F.lit(_LATEST_INGEST_TIME).cast("timestamp")
    ingested_at = F.greatest(F.least("ingested_at", latest), F.timestamp_millis(F.lit(0)))
    return messages.withColumn("ingested_at", ingested_at).withColumn("ingest_date", F.to_date(F.current_timestamp()))


def input_files(input_folder: AnyPath) -> Iterator[AnyPath]:
    """List the files that `file_messages` would read now: no hidden files, and no folders of whatever name."""
    for stream in STREAMS:
        folder = input_folder.absolute() / stream
        for file in folder.iterdir() if folder.is_dir() else ():
            if is_message_file(file.name) and file.is_file():
                yield file


def _glob_escaped(path: AnyPath) -> str:
    return "".join(f"\\{character}" if character in "\\*?[]{}" else character for character in str(path))
