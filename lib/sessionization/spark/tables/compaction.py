"""Compacts the small files of the tables that the stream writes all the time, one target after the other."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.session_conf import COMPACTION_CONF, added_conf
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES, SESSIONS, STREAM_PROGRESS, Table

T = TypeVar("T")

_log = logging.getLogger(__name__)

TURN_S = 120.0
"""The time from one turn to the next: a compaction of all at once would keep the cores from the other queries."""


class Turns(Generic[T]):
    """Gives each of several items its turn, `TURN_S` after the one before.

    The clock determines which item is first, so that each has its turn even if all runs are short.
    """

    def __init__(self, items: Sequence[T], monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._items, self._monotonic_s = items, monotonic_s
        self._next = wall_clock_ms()
        self._last_s = monotonic_s()

    def next_if_due(self) -> T | None:
        """Return the item whose turn has come; None if it has not."""
        now_s = self._monotonic_s()
        if now_s - self._last_s < TURN_S:
            return None
        self._last_s = now_s
        self._next += 1
        return self._items[self._next % len(self._items)]


@dataclass(frozen=True, slots=True)
class CompactionTarget:
    """What one compaction rewrites: the small files of a table, or only of the partitions that a filter selects."""

    table: Table
    partition_filter: str | None = None

    def compact(self, spark: SparkSession, location: TableLocation) -> None:
        """Compact the files. A failure is logged, and the target's next turn makes up for it."""
        try:
            optimize = location.delta_table(spark, self.table).optimize()
            with added_conf(spark, COMPACTION_CONF):
                (optimize.where(self.partition_filter) if self.partition_filter else optimize).executeCompaction()
        except (PySparkException, Py4JError) as error:
            # Such as a DELETE of the same files.
            _log.warning("compaction of %s was put off: %s", self.table.name, root_cause(str(error)))


CHANGES_TARGETS = (
    CompactionTarget(SESSION_CHANGES, "change = 'heartbeat'"),
    CompactionTarget(SESSION_CHANGES, "change != 'heartbeat'"),
)
SESSIONS_TARGETS = (CompactionTarget(SESSIONS), CompactionTarget(STREAM_PROGRESS))
