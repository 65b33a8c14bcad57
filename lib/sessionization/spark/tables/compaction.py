"""Compacts the tables that the stream writes all the time: one part of a table after the other, to share the cores."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES, SESSIONS, STREAM_PROGRESS, Table

_log = logging.getLogger(__name__)

COMPACT_EVERY_BATCHES = 10


@dataclass(frozen=True, slots=True)
class TablePart:
    """The rows of a table that one compaction rewrites: whole partitions, or without a condition the table."""

    table: Table
    condition: str | None = None


PARTS_OF_CHANGES = tuple(
    TablePart(SESSION_CHANGES, f"change = '{change}'") for change in ("heartbeat", "started", "ended")
)
OTHER_PARTS = (TablePart(SESSIONS), TablePart(STREAM_PROGRESS))


def part_to_compact(batch_id: int, parts: Sequence[TablePart]) -> TablePart | None:
    """The part whose turn it is after this micro-batch: after every `COMPACT_EVERY_BATCHES` the next one."""
    turn, batch_of_turn = divmod(batch_id, COMPACT_EVERY_BATCHES)
    return parts[turn % len(parts)] if batch_of_turn == COMPACT_EVERY_BATCHES - 1 else None


def compact(spark: SparkSession, location: TableLocation, part: TablePart) -> None:
    """Compact the small files of a part. A failure is logged; the part's next turn compacts what this one did not."""
    try:
        optimize = location.delta_table(spark, part.table).optimize()
        (optimize if part.condition is None else optimize.where(part.condition)).executeCompaction()
    except (PySparkException, Py4JError) as error:  # such as a DELETE of the same files
        _log.warning("compaction of %s was put off: %s", part.table.name, root_cause(str(error)))
