"""How far topics reach: asked of Spark, which knows the brokers, by a stream that reads nothing."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sessionization.spark.checkpoint.spark_logs import newest_started_batch, read_started_batch

Offsets = dict[str, dict[int, int]]
"""Offsets by topic and partition."""
EARLIEST = -2
"""In place of an offset, as Kafka has it: the first that is there."""


@dataclass(frozen=True, slots=True)
class TopicRange:
    """Of every partition of some topics: the offset of the first record since an instant, and the one after the last record.

    Where no record is since then, both are the same.
    """

    since: Offsets
    ends: Offsets


def read_topic_range(
    spark: SparkSession, options: Mapping[str, str], topics: tuple[str, ...], since_ms: int, scratch: Path
) -> TopicRange:
    """Ask for all partitions of topics that are there.

    Args:
        spark: the session.
        options: of the Kafka client, the brokers among them.
        topics: their names.
        since_ms: the instant, by the records' timestamps.
        scratch: a folder that is of no other use, and is gone afterwards.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    source = {
        "subscribe": ",".join(topics),
        "startingTimestamp": str(max(0, since_ms)),  # Kafka means something else by what is negative
        "startingOffsetsByTimestampStrategy": "latest",
        "failOnDataLoss": "false",
    }
    records = spark.readStream.format("kafka").options(**options, **source).load()
    try:
        records.writeStream.foreachBatch(_nothing).option("checkpointLocation", str(scratch)).trigger(
            availableNow=True
        ).start().awaitTermination()
        # Where a query begins its source keeps, in a line after that of the version; how far it is, the query's log.
        first = json.loads((scratch / "sources" / "0" / "0").read_bytes().partition(b"\n")[2])
        number = newest_started_batch(scratch)
        return TopicRange(
            parse_offsets(first), parse_offsets(first if number < 0 else read_started_batch(scratch, number).sources[0])
        )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def parse_offsets(said: Any) -> Offsets:
    """Offsets as they were in JSON, where a partition's number is a text; raises `ValueError` where they are none."""
    try:
        return {
            topic: {int(partition): int(offset) for partition, offset in partitions.items()}
            for topic, partitions in said.items()
        }
    except (AttributeError, TypeError) as error:
        msg = f"no offsets by topic and partition: {error}"
        raise ValueError(msg) from error


def _nothing(_records: DataFrame, _batch_id: int) -> None:
    """Leave a micro-batch unread."""
