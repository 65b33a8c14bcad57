"""Rows as the operator emits them, and the sink that appends them."""

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession

from sessionization.spark.operator.output_rows import OUTPUT_SCHEMA
from sessionization.spark.output.sinks import ChangesSink, SinkContext, to_session_changes
from sessionization.spark.tables.location import TableLocation

NOW_MS = 1_763_726_400_000


def a_change(**changes: object) -> tuple:
    values = dict.fromkeys(OUTPUT_SCHEMA.names) | {
        "device_id": "d1", "session_id": 1, "platform": "pc", "change": "started", "revision": 0, "duration_ms": 0,
        "started_ms": NOW_MS, "event_ms": NOW_MS, "ingested_ms": NOW_MS, "processed_ms": NOW_MS, "events": 1,
        "duplicate_start": 0, "duplicate_end": 0, "evicted": 0,
    }  # fmt: skip
    return tuple((values | changes).values())


def changes_frame(spark: SparkSession, changes: Iterable[tuple | list]) -> DataFrame:
    """Rows of the operator, in one partition, in the columns of `session_changes`."""
    return to_session_changes(spark.createDataFrame(list(changes), OUTPUT_SCHEMA).coalesce(1))


def changes_sink(location: TableLocation, reports: list, writer: str = "writer") -> ChangesSink:
    return ChangesSink(SinkContext("sessionize", location, writer, listeners=(reports.append,)))
