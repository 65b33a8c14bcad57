"""The read position of the previous job: what forbids a warm start, and where the new job continues.

Everything here comes from the tables, and nothing is changed.
"""

import os
from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.clock import utc
from sessionization.errors import ConfigurationError
from sessionization.hadoop_path import AnyPath
from sessionization.spark.engine.newest import newest_ms
from sessionization.spark.input.kafka_source import client_options
from sessionization.spark.input.source import input_files
from sessionization.spark.input.topic_offsets import Offsets, read_topic_range
from sessionization.spark.job_context import JobContext
from sessionization.spark.output import changes_topic
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import RAW_EVENTS, SESSION_CHANGES

_SCRATCH_FOLDER = "topic_ends"
_MAX_NAMES = 3
_SECONDS_UNTIL = 1_000_000_000_000
"""An ingest time before this one (September 2001) is in seconds, or the default of an archive: no clock showed it."""


def refuse_unlanded_changes(context: JobContext) -> None:
    """Raises `ConfigurationError` where the changes topic holds changes that `session_changes` lacks.

    The new state would lack a session whose Start is only in the topic. Once landed, that session would stay live
    forever.
    """
    spark, output_topic = context.spark, context.settings.output_topic
    table = context.location.read(spark.read, SESSION_CHANGES)
    options, scratch = client_options(spark, context.settings), context.checkpoint.folder / _SCRATCH_FOLDER
    if unlanded := changes_topic.count_unlanded_partitions(spark, table, options, output_topic, scratch):
        msg = (
            f"--from-sessions: {SESSION_CHANGES.name} lacks the newest changes of {unlanded:,} partitions of "
            f"{output_topic}: let land_changes take all that is in that topic, then start again with the same options"
        )
        raise ConfigurationError(msg)


def refuse_files_already_read(
    spark: SparkSession, folder: AnyPath, streams: Sequence[str], location: TableLocation
) -> None:
    """Raises `ConfigurationError` where the previous job has read, or may have read, a file of the input folder.

    A new checkpoint reads every file of its input, so the messages of files already read would be doubled. Retention
    deletes rows of `raw_events`, so the table cannot show whether a file older than its oldest row was read.
    """
    files = list(input_files(folder, streams))
    if not files:
        return
    already_read = _files_already_read(spark, files, location)
    if already_read:
        msg = (
            f"--input {folder} holds {len(already_read):,} files whose messages the tables have "
            f"({_some_names(already_read)}): move them away, or give a new --input folder; "
            "--from-sessions would read them again"
        )
        raise ConfigurationError(msg)
    oldest_known_ms = _oldest_known_ms(spark, location)
    old = sorted(str(file) for file in files if file.stat().st_mtime_ns // 1_000_000 < oldest_known_ms)
    if old:
        since = utc(oldest_known_ms).isoformat(timespec="milliseconds")
        msg = (
            f"--input {folder} holds {len(old):,} files from before {since}, and {RAW_EVENTS.name} shows only from "
            f"then on what was read ({_some_names(old)}): move them away, or give a new --input folder; "
            "touch those that surely were not read"
        )
        raise ConfigurationError(msg)


def next_offsets(context: JobContext) -> Offsets | None:
    """The next offset to read of each partition of the topics: after the last message that `raw_events` has of it.

    A partition without messages in `raw_events` starts at the ingest time of the table's oldest topic message.
    Retention deleted earlier messages there, or they came before the first start with `--starting-offsets latest`.

    Returns:
        An offset for every existing partition; None where `raw_events` has no messages from topics.

    Raises `ConfigurationError` where a partition does not reach as far as `raw_events`: the offsets then
    belong to other brokers or to another topic.
    """
    spark, location = context.spark, context.location
    oldest_ms = _oldest_ingest_ms(spark, location, "partition IS NOT NULL")
    if oldest_ms is None:
        return None
    options, scratch = client_options(spark, context.settings), context.checkpoint.folder / _SCRATCH_FOLDER
    topic_range = read_topic_range(spark, options, context.settings.event_map.stream_names, oldest_ms, scratch)
    starts = topic_range.since
    for (stream, partition), last in sorted(_last_offsets(spark, location, topic_range.ends).items()):
        if topic_range.ends.get(stream, {}).get(partition, 0) <= last:
            msg = (
                f"--from-sessions: partition {partition} of {stream} does not reach offset {last}, but "
                f"{RAW_EVENTS.name} has the message: give the brokers that have it; if the topic was made anew, "
                "begin with a new --checkpoints folder and an empty location for the tables"
            )
            raise ConfigurationError(msg)
        starts[stream][partition] = last + 1
    return starts


def _files_already_read(spark: SparkSession, files: list[AnyPath], location: TableLocation) -> list[str]:
    """The files from which `raw_events` has messages. The table names a file by its URI, with escaped characters.

    Compares only stream and file name, because the folder may have been moved or copied; no name is used twice.
    """
    # A name that is no UTF-8 has replacement characters there and here.
    path_by_name = {_readable(f"{file.parent.name}/{file.name}"): str(file) for file in files}
    present = spark.createDataFrame([(name,) for name in path_by_name], "file string")
    path = F.regexp_extract("file", "[^/]+/[^/]+$", 0)
    # try_url_decode decodes form data, in which a plus means a space.
    unescaped = F.try_url_decode(F.regexp_replace(path, r"\+", "%2B"))
    names = location.read(spark.read, RAW_EVENTS).where("file IS NOT NULL").select("file").distinct()
    read = names.select(F.coalesce(unescaped, path).alias("file"))
    return [_readable(path_by_name[row.file]) for row in read.join(present, "file", "semi").orderBy("file").collect()]


def _readable(name: str) -> str:
    return os.fsencode(name).decode(errors="replace")


def _last_offsets(spark: SparkSession, location: TableLocation, topics: Offsets) -> dict[tuple[str, int], int]:
    """The last offset in `raw_events` of each partition, by stream and partition.

    Reads the last two days. Reads earlier days where one of the partitions of `topics` has no message in the last two.
    Otherwise only the files of earlier days that hold a later offset, which a wrong clock of a producer can cause.
    """
    days = location.days(spark, RAW_EVENTS)
    if days is None:
        return {}
    messages = location.read(spark.read, RAW_EVENTS).where("partition IS NOT NULL")
    is_recent = F.col("ingest_date") >= F.lit(days[1] - timedelta(days=1))

    def last_by_partition(rows: DataFrame) -> dict[tuple[str, int], int]:
        last = rows.groupBy("stream", "partition").agg(F.max("offset").alias("last")).collect()
        return {(row.stream, row.partition): row.last for row in last}

    recent = last_by_partition(messages.where(is_recent))
    earlier_rows = messages.where(~is_recent)
    if {(topic, partition) for topic, partitions in topics.items() for partition in partitions} <= recent.keys():
        earlier_rows = earlier_rows.where(F.col("offset") > min(recent.values()))
    earlier = last_by_partition(earlier_rows)
    return {key: max(recent.get(key, -1), earlier.get(key, -1)) for key in recent | earlier}


def _oldest_known_ms(spark: SparkSession, location: TableLocation) -> int:
    """The instant from which `raw_events` has the messages of all files that were read.

    That is the ingest time of its oldest row from a file. Without such rows, it is just after the newest ingest
    time in `session_changes`.
    """
    oldest_ms = _oldest_ingest_ms(spark, location, "file IS NOT NULL")
    if oldest_ms is not None:
        return oldest_ms
    changes = location.read(spark.read, SESSION_CHANGES).where("change != 'heartbeat'")
    ingested_ms = newest_ms(changes, "ingested_at")
    return 0 if ingested_ms is None else ingested_ms + 1


def _oldest_ingest_ms(spark: SparkSession, location: TableLocation, condition: str) -> int | None:
    """The oldest ingest time of rows of `raw_events` that meet a condition; None without such rows.

    Reads the day on which the first message was taken.
    """
    days = location.days(spark, RAW_EVENTS)
    if days is None:
        return None
    rows = location.read(spark.read, RAW_EVENTS).where(condition).where(F.unix_millis("ingested_at") > _SECONDS_UNTIL)
    oldest = F.unix_millis(F.min("ingested_at"))
    oldest_ms: int | None = rows.where(F.col("ingest_date") == F.lit(days[0])).agg(oldest).collect()[0][0]
    if oldest_ms is None:  # the first day has only messages of another kind of source
        oldest_ms = rows.agg(oldest).collect()[0][0]
    return oldest_ms


def _some_names(names: list[str]) -> str:
    return f"{', '.join(names[:_MAX_NAMES])}{', ...' if len(names) > _MAX_NAMES else ''}"
