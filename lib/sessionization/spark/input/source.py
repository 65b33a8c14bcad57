"""The source of messages: one DataFrame of unparsed messages, from files, Kafka or Delta tables."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.hadoop_path import AnyPath
from sessionization.message_limits import MAX_VALUE_BYTES
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.take_log import TAKE_ENDING, TAKES_FOLDER
from sessionization.spark.input.file_taker import MOST_FILES
from sessionization.spark.input.kafka_source import kafka_messages
from sessionization.spark.input.source_tables import Versions, stream_tables
from sessionization.spark.input.stream_folders import ENDINGS, is_message_file
from sessionization.spark.input.taken_lines import SCHEMA, read_taken_files
from sessionization.spark.input.topic_offsets import Offsets

_LINE_BYTES = 200
"""Spark bounds a micro-batch by the bytes of its takes, in which a file has a line of about this length."""
_ANY_AGE = "36500000d"
"""Files of any time are read: Spark's source judges their age by the newest one."""
_LATEST_INGEST_TIME = "2261-12-31T00:00:00Z"
"""Later times, as of a clock in another unit, overflow in pandas and Python."""
_LATEST_MS = 1 << 50


@dataclass(frozen=True, slots=True)
class Begin:
    """Where a new checkpoint begins to read: the arguments of `kafka_messages` and `stream_tables`."""

    created_ms: int
    offsets: Offsets | None = None
    versions: Versions = field(default_factory=dict)


def read_messages(spark: SparkSession, settings: SessionizeSettings, most: int | None, begin: Begin) -> DataFrame:
    """Stream the messages of the configured source, at most so many messages of topics, or bytes of tables, at once.

    Returns:
        The columns of `quarantine` but `reason`: `stream`, `partition`, `offset`, `file`, `ingested_at` (within 1970
        to 2261), `value` binary, `ingest_date` (of the micro-batch's clock, which is the job's own), `value_bytes`.
    """
    if settings.source.type == "kafka":
        return _with_own_date(kafka_messages(spark, settings, begin.created_ms, most, begin.offsets))
    if settings.source.type == "table":
        return _with_own_date(stream_tables(spark, settings, most, begin.versions))
    assert settings.input_folder is not None
    log_folder, streams = settings.state.checkpoints / TAKES_FOLDER, settings.event_map.stream_names
    return file_messages(spark, settings.input_folder, streams, log_folder)


def file_messages(spark: SparkSession, input_folder: AnyPath, streams: Sequence[str], log_folder: AnyPath) -> DataFrame:
    """Stream the lines of the files in the streams' folders.

    A file must appear whole (written under another name or hidden, then renamed) and never change. The file's
    modification time is the ingest time of its lines.

    Args:
        spark: the session.
        input_folder: holds the streams' folders, each of which may be missing and appear later.
        streams: the names of these.
        log_folder: the log into which a `FileTaker` takes the files; not used where the input is a URI.

    Returns:
        The columns of `read_messages`; `partition` and `offset` are null, and `value` is a line without its LF or CRLF.
        Blank lines are skipped.
    """
    if isinstance(input_folder, Path):
        return _taken_messages(spark, log_folder)
    return _uri_messages(spark, input_folder, streams)


def _taken_messages(spark: SparkSession, log_folder: AnyPath) -> DataFrame:
    takes = (
        spark.readStream.format("text")
        .option("pathGlobFilter", f"*{TAKE_ENDING}")
        .option("maxBytesPerTrigger", str(MOST_FILES * _LINE_BYTES))
        .option("maxFileAge", _ANY_AGE)
        .load(glob_escaped(log_folder.absolute()))
    )
    lines = takes.mapInArrow(read_taken_files, SCHEMA)
    return _file_columns(lines.withColumn("ingested_at", F.timestamp_millis(F.least("modified_ms", F.lit(_LATEST_MS)))))


def _file_columns(lines: DataFrame) -> DataFrame:
    return _with_own_date(
        lines.select(
            "stream",
            F.lit(None).cast("int").alias("partition"),
            F.lit(None).cast("bigint").alias("offset"),
            "file",
            "ingested_at",
            "value",
            "value_bytes",
        )
    )


def _uri_messages(spark: SparkSession, input_folder: AnyPath, streams: Sequence[str]) -> DataFrame:
    """Stream the lines of the files at a URI, which only the JVM can read; the columns are those of `read_messages`."""
    lines = (
        spark.readStream.format("text")
        .option("lineSep", "\n")
        .option("pathGlobFilter", f"*{{{','.join(ENDINGS)}}}")
        # Without this option a folder named like a partition (date=2026-11-21) ends the query. The last `where` drops
        # the files in such folders.
        .option("recursiveFileLookup", "true")
        .option("maxFilesPerTrigger", str(MOST_FILES))
        .option("maxFileAge", _ANY_AGE)
        # A file that ends the engine can be moved away.
        .option("ignoreMissingFiles", "true")
        .load(f"{glob_escaped(input_folder.absolute())}/{{{','.join(streams)}}}")
    )
    line = F.col("value").cast("binary")
    without_cr = F.when(F.endswith(line, F.lit(b"\r")), F.substring(line, F.lit(1), F.octet_length(line) - 1))
    file = F.col("_metadata.file_path")
    return _file_columns(
        lines.where(F.expr(r"trim(BOTH ' \t\r' FROM value) != ''"))
        .select(
            F.regexp_extract(file, rf"/({'|'.join(map(re.escape, streams))})/[^/._][^/]*$", 1).alias("stream"),
            file.alias("file"),
            F.col("_metadata.file_modification_time").alias("ingested_at"),
            F.coalesce(without_cr, line).alias("value"),
        )
        .where("stream != ''")
        .withColumn("value_bytes", F.octet_length("value").cast("bigint"))
        .withColumn("value", F.substring("value", 1, MAX_VALUE_BYTES + 1))  # as of the files that are taken
    )


def _with_own_date(messages: DataFrame) -> DataFrame:
    """Bound the ingest time, which any clock may have made, and add the date by which the tables are retained."""
    latest = F.lit(_LATEST_INGEST_TIME).cast("timestamp")
    ingested_at = F.greatest(F.least("ingested_at", latest), F.timestamp_millis(F.lit(0)))
    return messages.withColumn("ingested_at", ingested_at).withColumn("ingest_date", F.to_date(F.current_timestamp()))


def input_files(input_folder: AnyPath, streams: Sequence[str]) -> Iterator[AnyPath]:
    """List the files that would be read now: no hidden files, and no folders of whatever name."""
    for stream in streams:
        folder = input_folder.absolute() / stream
        for file in folder.iterdir() if folder.is_dir() else ():
            if is_message_file(file.name) and file.is_file():
                yield file


def glob_escaped(path: AnyPath) -> str:
    """The path as Spark's sources take it: they expand patterns."""
    return "".join(f"\\{character}" if character in "\\*?[]{}" else character for character in str(path))
