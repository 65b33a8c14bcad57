"""The operator's output: changes as rows, and the packed rows in which they leave Python."""

import re
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import orjson
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from sessionization.core.device_sessions import Outcome, Tally
from sessionization.core.events import Labels
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.tables.schemas import SESSION_CHANGES

_TYPES = {"string": StringType(), "int": IntegerType(), "bigint": LongType(), "timestamp": LongType()}
_COLUMNS = [
    StructField(re.sub("_at$", "_ms", column.name), _TYPES[column.type])
    for column in SESSION_CHANGES.columns
    if column.name not in {"processed_at", "change_date"}
]
_COUNTS = ("events", "duplicate_start", "duplicate_end", "evicted", "entries")
OUTPUT_SCHEMA = StructType(
    [
        *_COLUMNS,
        StructField("last_active_ms", LongType()),
        StructField("processed_ms", LongType()),
        *(StructField(name, IntegerType()) for name in _COUNTS),
        StructField("labels", StringType()),
        StructField("activity_counts", StringType()),
    ]
)
"""A row of the operator: a change (`change` not null), the counts of a device's events, or both.

A change has the columns of `session_changes`, but no date, and its instants as UTC milliseconds. The last ones are
`last_active_ms`, null without signs of life, and `processed_ms`. `labels` are the values of the label columns as a JSON
array; null without any. A row may instead hold the number of `entries` of a device group; `device_id` is then the
group. With session ids of type text `session_id` is a string (`output_schema`).

`activity_counts` are the `ACTIVITY_COUNTS` of a device's Activities as a JSON array; null without any. One text for all
of them costs nothing where there are none.
"""

ACTIVITY_COUNTS = ("activities", "duplicate_activity", "late_activity", "implied_starts")

OutputRow = tuple[Any, ...]
"""A row of `OUTPUT_SCHEMA`, field by field."""

_PackedRow = Row(*OUTPUT_SCHEMA.names)
_MAX_PACKED_ROWS = 10_000
_activity_counts_of = attrgetter(*ACTIVITY_COUNTS)
_NO_COUNTS = (None, None, None, None)
_CHANGE_COLUMNS = OUTPUT_SCHEMA.names[1 : OUTPUT_SCHEMA.names.index("processed_ms") + 1]
_NO_CHANGE = (None,) * (len(_CHANGE_COLUMNS) - 1)
_fields_of = attrgetter(*("kind" if name == "change" else name for name in _CHANGE_COLUMNS))
"""The fields of a `Change` in the order of the columns."""


def output_schema(layout: StateLayout) -> StructType:
    """`OUTPUT_SCHEMA` with session ids of the layout's type."""
    device_id, session_id, *others = OUTPUT_SCHEMA
    return StructType([device_id, StructField(session_id.name, _TYPES[layout.session_id_type]), *others])


def packed_output_schema(layout: StateLayout) -> StructType:
    """The operator's output to Spark: an array per column of `output_schema`, so one row carries many."""
    return StructType([StructField(field.name, ArrayType(field.dataType)) for field in output_schema(layout)])


def change_rows(device_id: str, outcome: Outcome, now_ms: int) -> Iterator[OutputRow]:
    """Make one row per change. The counts, if any, go into the first row, or alone into their own row."""
    tally = outcome.tally
    counts = (tally.events, tally.duplicate_start, tally.duplicate_end, tally.evicted) if tally.events else _NO_COUNTS
    activity_counts = _activity_counts_text(tally)
    for change in outcome.changes:
        yield (device_id, *_fields_of(change), *counts, None, labels_text(change.labels), activity_counts)
        counts, activity_counts = _NO_COUNTS, None
    if counts is not _NO_COUNTS:
        yield (device_id, *_NO_CHANGE, now_ms, *counts, None, None, activity_counts)


def _activity_counts_text(tally: Tally) -> str | None:
    if tally.activities or tally.duplicate_activity or tally.late_activity:
        return orjson.dumps(_activity_counts_of(tally)).decode()
    return None


def labels_text(labels: Labels) -> str | None:
    """The labels of a change as `OUTPUT_SCHEMA` has them."""
    return orjson.dumps(labels).decode() if labels else None


def entries_row(group: str, entries: int, now_ms: int) -> OutputRow:
    """Make the row with the number of entries of a device group."""
    return (group, *_NO_CHANGE, now_ms, *_NO_COUNTS, entries, None, None)


def label_columns(array: str, names: Sequence[str]) -> list[str]:
    """SQL of the label columns, from the array of their values; rows from before a column have none in it."""
    return [f"get({array}, {at}) AS `{name}`" for at, name in enumerate(names)]


def pack_rows(rows: Sequence[OutputRow]) -> Iterator[Row]:
    """Pack rows of `OUTPUT_SCHEMA` into rows of `packed_output_schema`."""
    for start in range(0, len(rows), _MAX_PACKED_ROWS):
        yield _PackedRow(*zip(*rows[start : start + _MAX_PACKED_ROWS], strict=True))


def pack_columns(columns: Mapping[str, Sequence[Any]]) -> Iterator[Row]:
    """Pack columns of `OUTPUT_SCHEMA`, all of one length; the other columns are null."""
    count = max(map(len, columns.values()), default=0)
    for start in range(0, count, _MAX_PACKED_ROWS):
        # All columns are tuples: PySpark searches lists cell by cell for nested rows.
        part = {name: tuple(column[start : start + _MAX_PACKED_ROWS]) for name, column in columns.items()}
        nulls = (None,) * min(count - start, _MAX_PACKED_ROWS)
        yield _PackedRow(*(part.get(name, nulls) for name in OUTPUT_SCHEMA.names))


def unpack_rows(packed_rows: DataFrame) -> DataFrame:
    """Unpack rows of `packed_output_schema` into rows of `OUTPUT_SCHEMA`."""
    return packed_rows.select(F.inline(F.arrays_zip(*OUTPUT_SCHEMA.names)))
