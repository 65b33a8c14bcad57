"""The offset ranges of topics. Spark knows the brokers, so a stream that reads no records finds them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from sessionization.files import remove_tree
from sessionization.hadoop_path import AnyPath
from sessionization.spark.checkpoint.spark_logs import newest_started_batch, read_started_batch

Offsets = dict[str, dict[int, int]]
"""Offsets by topic and partition."""


@dataclass(frozen=True, slots=True)
class TopicRange:
    """For every partition: the offset of the first record since an instant, and the offset after the last record.

    Both are equal where no record is that new.
    """

    since: Offsets
    ends: Offsets


def read_topic_range(
    spark: SparkSession, options: Mapping[str, str], topics: tuple[str, ...], since_ms: int, scratch: AnyPath
) -> TopicRange:
    """Read the range of all existing partitions of topics.

    Args:
        spark: the session.
        options: the options of the Kafka client, including the brokers.
        topics: the topics' names.
        since_ms: the instant, by the records' timestamps.
        scratch: a folder for this call alone, deleted before and after.
    """
    remove_tree(scratch)
    query = scratch / uuid4().hex  # the deletion leaves what the listing of a volume lacks
    source = {
        "subscribe": ",".join(topics),
        "startingTimestamp": str(max(0, since_ms)),  # a negative timestamp has another meaning in Kafka
        "startingOffsetsByTimestampStrategy": "latest",
        "failOnDataLoss": "false",
    }
    records = spark.readStream.format("kafka").options(**options, **source).load()
    try:
        records.writeStream.foreachBatch(_skip_batch).option("checkpointLocation", str(query)).trigger(
            availableNow=True
        ).start().awaitTermination()
        # The source's log has the start offsets, on the line after the version; the query's log has the end offsets.
        first = json.loads((query / "sources" / "0" / "0").read_bytes().partition(b"\n")[2])
        batch_id = newest_started_batch(query)
        return TopicRange(
            parse_offsets(first),
            parse_offsets(first if batch_id < 0 else read_started_batch(query, batch_id).sources[0]),
        )
    finally:
        remove_tree(scratch)


def parse_offsets(content: Any) -> Offsets:
    """Convert offsets from parsed JSON, where a partition's number is text; raises `ValueError` for other data."""
    try:
        return {
            topic: {int(partition): int(offset) for partition, offset in partitions.items()}
            for topic, partitions in content.items()
        }
    except (AttributeError, TypeError) as error:
        msg = f"no offsets by topic and partition: {error}"
        raise ValueError(msg) from error


def _skip_batch(_records: DataFrame, _batch_id: int) -> None:
    """Leave a micro-batch unread."""
