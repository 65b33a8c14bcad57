"""A sample of the messages that the job will read: of the newest files, records of topics, or rows of tables."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from sessionization.clock import wall_clock_ms
from sessionization.durations import MINUTE_MS
from sessionization.event_map.model import EventMap
from sessionization.hadoop_path import AnyPath
from sessionization.message_limits import MAX_VALUE_BYTES
from sessionization.sample.read_message import Message
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.input.avro_messages import registry_of
from sessionization.spark.input.kafka_source import client_options
from sessionization.spark.input.message_lines import read_lines
from sessionization.spark.input.source_tables import read_tables
from sessionization.spark.input.stream_folders import ENDINGS, list_folder

_NEW_MS = 10 * MINUTE_MS


def sample_messages(spark: SparkSession, settings: SessionizeSettings, most: int) -> list[Message]:
    """Read at most this many messages, as many of each stream."""
    streams = settings.event_map.stream_names
    each = max(1, most // len(streams))
    found: list[Message] = []
    if settings.source.type == "table":
        messages = read_tables(spark, settings.event_map)
        return [message for stream in streams for message in _rows(messages, stream, each)]
    for stream in streams:
        if settings.input_folder is None:
            found += _records(spark, settings, stream, each)
        elif isinstance(folder := settings.input_folder / stream, Path):
            found += islice(_lines_of_newest_files(folder), each)
        elif folder.is_dir():
            found += _lines_at_uri(spark, folder, each)
    return found


def as_json(spark: SparkSession, events: EventMap, messages: list[Message]) -> tuple[list[Message], list[str]]:
    """The sample with its Avro decoded, if it can be, and a line about the schemas that are missing."""
    if not events.is_avro:
        return messages, []
    from sessionization.avro.decoder import Decoder  # needs the extra

    decoder = Decoder(registry_of(spark, events))
    found = [replace(message, value=decoder.json_of(message.value) or message.value) for message in messages]
    if not decoder.unknown:
        return found, []
    return found, [f"no schema that can be read has the id {', '.join(map(str, sorted(decoder.unknown)))}"]


def _records(spark: SparkSession, settings: SessionizeSettings, topic: str, most: int) -> list[Message]:
    """Records of the last minutes, or the oldest ones where there are none."""
    source = client_options(spark, settings) | {"subscribe": topic, "failOnDataLoss": "false"}
    newest = {
        "startingTimestamp": str(wall_clock_ms() - _NEW_MS),
        "startingOffsetsByTimestampStrategy": "latest",
    }
    for start in (newest, {"startingOffsets": "earliest"}):
        records = spark.read.format("kafka").options(**source, **start).load()
        at = F.concat_ws(" ", F.lit("partition"), "partition", F.lit("offset"), "offset").alias("at")
        rows = records.select("value", F.unix_millis("timestamp").alias("ms"), at).limit(most).collect()
        if rows:
            return [_message(topic, row) for row in rows]
    return []


def _rows(messages: DataFrame, stream: str, most: int) -> list[Message]:
    """Rows that were ingested in the last minutes, or any where there are none."""
    of_stream = messages.where(F.col("stream") == stream)
    since = F.timestamp_millis(F.lit(wall_clock_ms() - _NEW_MS))
    at = F.concat_ws(" ", F.lit("row of"), "ingested_at").alias("at")
    ms = F.coalesce(F.unix_millis("ingested_at"), F.lit(0)).alias("ms")
    for condition in (F.col("ingested_at") >= since, F.lit(True)):
        rows = of_stream.where(condition).select("value", ms, at).limit(most).collect()
        if rows:
            return [_message(stream, row) for row in rows]
    return []


def _lines_of_newest_files(folder: Path) -> Iterator[Message]:
    files = sorted(list_folder(folder).files, key=lambda file: file[1].st_mtime_ns, reverse=True)
    for path, status in files:
        lines = (value for values, _ in read_lines(Path(path), MAX_VALUE_BYTES + 1) for value in values)
        for number, value in enumerate(lines, start=1):
            yield Message(folder.name, value, status.st_mtime_ns // 1_000_000, f"message {number} of {path}")


def _lines_at_uri(spark: SparkSession, folder: AnyPath, most: int) -> list[Message]:
    files = spark.read.option("pathGlobFilter", f"*{{{','.join(ENDINGS)}}}").option("recursiveFileLookup", "true")
    lines = files.text(str(folder), lineSep="\n").where(r"trim(BOTH ' \t\r' FROM value) != ''")
    columns = (
        F.col("value").cast("binary").alias("value"),
        F.unix_millis("_metadata.file_modification_time").alias("ms"),
        F.col("_metadata.file_path").alias("at"),
    )
    return [_message(folder.name, row) for row in lines.select(*columns).limit(most).collect()]


def _message(stream: str, row: Row) -> Message:
    return Message(stream, bytes(row.value or b"").removesuffix(b"\r"), row.ms, row.at)
