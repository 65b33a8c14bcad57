"""The clock of replayed micro-batches: from the stream's tables where they record it, and regular elsewhere."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionization.clock import wall_clock_ms
from sessionization.durations import DAY_MS
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES, STREAM_PROGRESS

Instants = NDArray[np.int64]
"""UTC milliseconds."""

_NEVER_MS = 1 << 62
_AT = "unix_millis(processed_at)"
EVERY_MS = 1_000
"""How often a simulated stream has a micro-batch."""


def _no_instants() -> Instants:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class MicroBatchClock:
    """The processing times of micro-batches, and which of them took a message.

    Attributes:
        until_ms: the clock of the last micro-batch; nothing happens after it.
        known: the clocks of the stream's micro-batches, ascending. Before the first and after the last of them there
            is one every `EVERY_MS`. Between them there is no other one, also where the stream was down.
        took: the clocks of the micro-batches that applied events, ascending.
        up_to: for each of `took`, the newest ingest time that it or an earlier one applied.
        from_ms: no micro-batch here is known to have taken a message that was ingested before this. The clock assigns
            such a message to the first micro-batch at or after its ingest time.
        goes_on: whether the stream had later micro-batches than the last one here; they may have ended live sessions.
    """

    until_ms: int
    known: Instants = field(default_factory=_no_instants)
    took: Instants = field(default_factory=_no_instants)
    up_to: Instants = field(default_factory=_no_instants)
    from_ms: int = 0
    goes_on: bool = False

    def at_or_after(self, instant_ms: int) -> int:
        """The clock of the first micro-batch at or after an instant.

        As `all_at_or_after`, which takes ten times as long for one instant.
        """
        regular = -(-instant_ms // EVERY_MS) * EVERY_MS
        position = bisect_left(self.known, instant_ms)
        if position == len(self.known) or regular < self.known[0]:
            return regular
        return int(self.known[position])

    def all_at_or_after(self, instants_ms: Instants) -> Instants:
        """As `at_or_after`, for each instant."""
        regular = -(-instants_ms // EVERY_MS) * EVERY_MS
        if not len(self.known):
            return regular
        position = np.searchsorted(self.known, instants_ms, "left")
        next_known = self.known[np.minimum(position, len(self.known) - 1)]
        is_before = regular < self.known[0]
        return np.where(is_before | (position == len(self.known)), regular, next_known)

    def of_messages(self, ingested_ms: Instants) -> Instants:
        """The clock of the micro-batch that took each message, by ingest time; monotonic in the ingest time."""
        if not len(self.took):
            return self.all_at_or_after(ingested_ms)
        position = np.searchsorted(self.up_to, ingested_ms, "left")
        taken = self.took[np.minimum(position, len(self.took) - 1)]
        after_last = np.maximum(self.all_at_or_after(ingested_ms), self.took[-1])
        clock = np.where(position == len(self.took), after_last, taken)
        return np.where(ingested_ms < self.from_ms, np.minimum(self.all_at_or_after(ingested_ms), clock), clock)


def build_clock(
    changed: Sequence[ArrayLike],
    known: Sequence[ArrayLike],
    *,
    until_ms: int,
    is_whole: bool = True,
    goes_on: bool = False,
) -> MicroBatchClock:
    """A clock from the stream's tables.

    The tables do not record which micro-batch took a message that changed nothing. The clock assigns it to the first
    micro-batch with events after its ingest time, unless a micro-batch is known to start with later messages.

    Args:
        changed: of each micro-batch with changes its clock, and the oldest and newest ingest time of their messages.
        known: of each micro-batch its clock, and how many events it took.
        until_ms: the clock of the last micro-batch.
        is_whole: whether the first micro-batch here is the stream's first; it then took all older messages.
        goes_on: as in `MicroBatchClock`.
    """
    changed_ms, oldest_ms, newest_ms = (np.asarray(values, np.int64) for values in changed)
    known_ms, events = (np.asarray(values, np.int64) for values in known)
    took_ms = np.unique(np.concatenate([changed_ms, known_ms[events > 0]]))
    least_ms, most_ms = np.full(len(took_ms) + 1, _NEVER_MS), np.zeros(len(took_ms), np.int64)
    position = np.searchsorted(took_ms, changed_ms)
    least_ms[position], most_ms[position] = oldest_ms, newest_ms
    later_ms = np.minimum.accumulate(least_ms[::-1])[::-1][1:]
    return MicroBatchClock(
        until_ms,
        known=np.unique(np.concatenate([known_ms, changed_ms])) if len(known_ms) else known_ms,
        took=took_ms,
        up_to=np.maximum.accumulate(np.maximum(most_ms, np.minimum(took_ms, later_ms - 1))),
        from_ms=0 if is_whole or not len(changed_ms) else int(oldest_ms.min()),
        goes_on=goes_on,
    )


def stream_clock(spark: SparkSession, location: TableLocation, from_ms: int, to_ms: int) -> MicroBatchClock:
    """The clock of the micro-batches from `from_ms` to a day after `to_ms`, as far as the tables record them.

    The driver and each task hold 24 bytes for each of them, 2 MB for a day with one per second.
    """
    changes = location.read(spark.read, SESSION_CHANGES).where("change != 'heartbeat' AND ingested_at IS NOT NULL")
    progress = location.read(spark.read, STREAM_PROGRESS).where("query = 'sessionize'")
    (recorded,) = progress.selectExpr(
        f"min(CASE WHEN started > 0 THEN {_AT} END) AS first_start_ms", f"max({_AT}) AS newest_ms"
    ).collect()
    begin, end = (F.timestamp_millis(F.lit(instant_ms)) for instant_ms in (from_ms, to_ms + DAY_MS))
    is_within, ingested = F.col("processed_at").between(begin, end), F.unix_millis("ingested_at")
    changed = (
        changes.where(F.col("change_date").between(F.to_date(begin), F.to_date(end)) & is_within)
        .groupBy(F.expr(_AT).alias("at"))
        .agg(F.min(ingested).alias("oldest"), F.max(ingested).alias("newest"))
        .toArrow()
    )
    known = progress.where(is_within).selectExpr(f"{_AT} AS at", "rows_in").toArrow()
    clocks = np.concatenate([changed["at"].to_numpy(), known["at"].to_numpy()])
    newest_ms = int(clocks.max()) if len(clocks) else wall_clock_ms()
    until_ms = min(to_ms, newest_ms)
    first_changed_ms = int(changed["at"].to_numpy().min()) if len(changed) else _NEVER_MS
    return build_clock(
        [column.to_numpy() for column in changed.columns],
        [column.to_numpy() for column in known.columns],
        until_ms=until_ms,
        is_whole=recorded.first_start_ms is not None and first_changed_ms <= recorded.first_start_ms,
        goes_on=max(newest_ms, recorded.newest_ms or 0) > until_ms,
    )
