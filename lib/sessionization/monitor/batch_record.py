"""The record of one micro-batch: its sink's counts, and the engine's report."""

import json
from collections.abc import Iterable
from typing import Any

from pyspark.sql.streaming.listener import SourceProgress, StreamingQueryProgress

from sessionization.clock import utc
from sessionization.spark.output.progress import BatchProgress

Record = dict[str, Any]
"""The fields by name, with JSON types. One that is unknown, or that the query lacks, is absent."""


def batch_record(progress: BatchProgress, engine: StreamingQueryProgress | None) -> Record:
    """The fields of the batch log, which docs/monitoring.md lists; without `engine` only the sink's.

    Args:
        progress: the sink's counts.
        engine: the engine's report of the same micro-batch.
    """
    fields = progress.row()
    at = utc(fields.pop("processed_ms")).isoformat(timespec="milliseconds")
    detail = progress.detail
    known = {"at": at} | fields | {"ends": detail.ends, "live": detail.live}
    known |= {"write_ms": detail.write_ms, "keeps_up": detail.keeps_up}
    if engine is not None:
        known |= _engine_fields(progress, engine)
    return {name: value for name, value in known.items() if value is not None}


def _engine_fields(progress: BatchProgress, engine: StreamingQueryProgress) -> Record:
    fields: Record = {"phases_ms": dict(engine.durationMs), "backlog": _backlog(engine.sources)}
    if engine.stateOperators:
        operator = engine.stateOperators[0]
        fields |= {
            "state_rows": operator.numRowsTotal,
            "state_bytes": operator.memoryUsedBytes,
            "state_commit_ms": operator.commitTimeMs,
            "skew": _skew(progress, operator.numShufflePartitions),
        }
    return fields


def _skew(progress: BatchProgress, partitions: int) -> float | None:
    """Rows of the largest partition divided by the rows of the average one; 1 where all have the same number."""
    largest, rows = progress.detail.largest_partition, progress.detail.rows_out
    if not largest or not rows:
        return None
    return round(largest * partitions / rows, 3)


def _backlog(sources: Iterable[SourceProgress]) -> int | None:
    """How many messages the brokers had that this micro-batch did not take; None where no source is Kafka."""
    backlog: int | None = None
    for source in sources:
        if not source.description.startswith("KafkaV2"):
            continue
        newest, taken = _offsets(source.latestOffset), _offsets(source.endOffset)
        behind = (offset - taken.get(partition, offset) for partition, offset in newest.items())
        backlog = (backlog or 0) + sum(max(0, messages) for messages in behind)
    return backlog


def _offsets(text: str | None) -> dict[tuple[str, str], int]:
    """Parse the engine's text of offsets into offsets by topic and partition."""
    by_topic = json.loads(text or "null") or {}
    return {
        (topic, partition): offset
        for topic, by_partition in by_topic.items()
        for partition, offset in by_partition.items()
    }
