"""The source of messages: one DataFrame of unparsed messages, from files or Kafka."""

from collections.abc import Iterator

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.hadoop_path import AnyPath
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.input.kafka_source import kafka_messages
from sessionization.spark.input.stream_folders import ENDINGS, is_message_file
from sessionization.spark.input.topic_offsets import Offsets
from sessionization.streams import STREAMS

MAX_FILES_PER_MICRO_BATCH = 1_000
"""Limits one micro-batch, so that heartbeats continue while the job works off a backlog."""
_LATEST_INGEST_TIME = "2261-12-31T00:00:00Z"
"""Later times, as of a clock in another unit, overflow in pandas and Python."""


def read_messages(
    spark: SparkSession,
    settings: SessionizeSettings,
    created_ms: int,
    max_offsets: int | None,
    starts: Offsets | None = None,
) -> DataFrame:
    """Stream the messages of the configured source, in the columns of `raw_events`; `kafka_messages` has the arguments.

    `ingested_at` lies within 1970 to 2261. `ingest_date` is of the micro-batch's clock, which is the job's own.
    """
    if settings.source == "kafka":
        return _with_own_date(kafka_messages(spark, settings, created_ms, max_offsets, starts))
    assert settings.input is not None
    return file_messages(spark, settings.input)


def file_messages(spark: SparkSession, input_folder: AnyPath) -> DataFrame:
    """Stream the lines of the files in the stream folders of `input_folder` that end with one of `ENDINGS`.

    Either folder may be missing and appear later. A file must appear whole (written under another name or hidden,
    then renamed) and never change. The file's modification time is the ingest time of its lines.

    Returns:
        The columns of `raw_events`: `stream`, `partition` and `offset` (null), `file`, `ingested_at`, `value`
        binary (a line without its LF or CRLF), `ingest_date`. Blank lines are skipped.
    """
    lines = (
        spark.readStream.format("text")
        .option("lineSep", "\n")
        .option("pathGlobFilter", f"*{{{','.join(ENDINGS)}}}")
        # Without this option a folder named like a partition (date=2026-11-21) ends the query. The last `where` drops
        # the files in such folders.
        .option("recursiveFileLookup", "true")
        .option("maxFilesPerTrigger", str(MAX_FILES_PER_MICRO_BATCH))
        # Files of any time are read: the source judges their age by the newest one.
        .option("maxFileAge", "36500000d")
        # A file that ends the engine can be moved away.
        .option("ignoreMissingFiles", "true")
        .load(f"{_glob_escaped(input_folder.absolute())}/{{{','.join(STREAMS)}}}")
    )
    line = F.col("value").cast("binary")
    without_cr = F.when(F.endswith(line, F.lit(b"\r")), F.substring(line, F.lit(1), F.octet_length(line) - 1))
    file = F.col("_metadata.file_path")
    return _with_own_date(
        lines.where(F.expr(r"trim(BOTH ' \t\r' FROM value) != ''"))
        .select(
            F.regexp_extract(file, rf"/({'|'.join(STREAMS)})/[^/._][^/]*$", 1).alias("stream"),
            F.lit(None).cast("int").alias("partition"),
            F.lit(None).cast("bigint").alias("offset"),
            file.alias("file"),
            F.col("_metadata.file_modification_time").alias("ingested_at"),
            F.coalesce(without_cr, line).alias("value"),
        )
        .where("stream != ''")
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
