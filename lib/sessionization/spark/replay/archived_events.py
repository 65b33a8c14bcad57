"""The events of archived messages, device by device, each with the clock of the micro-batch that took it."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from sessionization.core.heartbeat_grid import grid_for_key
from sessionization.core.session_state import Rules
from sessionization.event_map.model import EventMap
from sessionization.message_limits import EventTimeLimits
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.input import source_tables
from sessionization.spark.input.parse import parse, valid_events
from sessionization.spark.operator.event_text import pack_event, unpack_event
from sessionization.spark.operator.output_rows import label_columns
from sessionization.spark.replay.device_replay import replay
from sessionization.spark.replay.micro_batch_clock import MicroBatchClock
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import RAW_EVENTS

_CHANGE_SCHEMA = pa.schema(
    [
        ("device_id", pa.string()),
        ("session_id", pa.int64()),
        ("account_id", pa.string()),
        ("platform", pa.string()),
        ("kind", pa.string()),
        ("processed_ms", pa.int64()),
        ("started_ms", pa.int64()),
        ("end_reason", pa.string()),
        ("revision", pa.int32()),
        ("ended_ms", pa.int64()),
        ("foreground_s", pa.int64()),
        ("labels", pa.list_(pa.string())),
    ]
)
"""The fields of a `Change` that decide a row of `sessions`, with the device; session ids may be text (`_schema`)."""
_fields_of = attrgetter(*_CHANGE_SCHEMA.names[1:])
_ROWS_PER_BATCH = 10_000


def _schema(layout: StateLayout) -> pa.Schema:
    at = _CHANGE_SCHEMA.get_field_index("session_id")
    return _CHANGE_SCHEMA.set(at, pa.field("session_id", pa.string())) if layout.has_text_ids else _CHANGE_SCHEMA


def archived_messages(
    spark: SparkSession,
    location: TableLocation,
    events: EventMap,
    *,
    archives: bool,
    versions: source_tables.Versions | None = None,
) -> DataFrame:
    """The messages that were read: `raw_events`, or where nothing is archived, the source tables (`read_tables`).

    `versions` are those of the source tables, by default the newest.
    """
    if archives:
        return location.read(spark.read, RAW_EVENTS)
    return source_tables.read_tables(spark, events, versions)


def read_events(
    messages: DataFrame,
    limits: EventTimeLimits,
    events: EventMap,
    labels: Sequence[str] = (),
    *,
    has_activity: bool = False,
) -> DataFrame:
    """The valid events among archived messages, as the stream parses them.

    Args:
        messages: rows of `archived_messages`.
        limits: the bounds on event time.
        events: what the messages mean.
        labels: the label columns.
        has_activity: whether kinds of activity are events.

    Returns:
        The columns of `valid_events`.
    """
    columns = messages.select("stream", "ingested_at", "value")
    return valid_events(parse(columns, limits, events, labels, has_activity=has_activity))


def replayed_changes(
    events: DataFrame, clock: MicroBatchClock, rules: Rules, layout: StateLayout, partitions: int
) -> DataFrame:
    """Replay each device's events, and return its changes without heartbeats, in the columns of `session_changes`.

    Args:
        events: rows of `read_events`: all events of each device since it had no session in the state.
        clock: the clock of the stream's micro-batches.
        rules: the rules in force.
        layout: the stream's; it decides the phase of the timers.
        partitions: how many tasks replay.

    Returns:
        The columns of `session_changes` that `rollup.fold_by_session` reads, the label columns among them.
    """

    def replay_devices(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return record_batches(_replay_devices(batches, clock, rules, layout), _schema(layout))

    changes = (
        events.select("device_id", "ingested_ms", pack_event(layout).alias("text"))
        .repartition(partitions, "device_id")
        .sortWithinPartitions("device_id", "ingested_ms")
        .mapInArrow(replay_devices, from_arrow_schema(_schema(layout)))
    )
    instants = (f"timestamp_millis({name}_ms) AS {name}_at" for name in ("started", "ended", "processed"))
    others = [name for name in _CHANGE_SCHEMA.names if not name.endswith("_ms") and name not in {"kind", "labels"}]
    return changes.selectExpr(*others, "kind AS change", *instants, *label_columns("labels", layout.labels))


def _replay_devices(
    batches: Iterable[pa.RecordBatch], clock: MicroBatchClock, rules: Rules, layout: StateLayout
) -> Iterator[tuple[Any, ...]]:
    """Rows of `_CHANGE_SCHEMA`, from packed events with their ingest times, sorted by device and ingest time."""
    for device_id, rows in groupby(clocked_rows(batches, clock), itemgetter(0)):
        taken = groupby(rows, itemgetter(1))
        micro_batches = (
            (now_ms, [unpack_event(text, layout)[1] for *_, text in messages]) for now_ms, messages in taken
        )
        grid = grid_for_key(layout.grouping_key_of(device_id), rules.heartbeat_ms)
        yield from ((device_id, *_fields_of(change)) for change in replay(micro_batches, grid, rules, clock))


def clocked_rows(batches: Iterable[pa.RecordBatch], clock: MicroBatchClock) -> Iterator[tuple[str, int, str]]:
    """The device of each row, the clock of the micro-batch that took it, and its text."""
    for batch in batches:
        taken_ms = clock.of_messages(np.asarray(batch["ingested_ms"]))
        yield from zip(batch["device_id"].to_pylist(), taken_ms.tolist(), batch["text"].to_pylist(), strict=True)


def record_batches(rows: Iterator[tuple[Any, ...]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows in batches of Arrow."""
    while some := list(islice(rows, _ROWS_PER_BATCH)):
        columns = zip(zip(*some, strict=True), schema.types, strict=True)
        yield pa.record_batch([pa.array(values, type_) for values, type_ in columns], schema)
