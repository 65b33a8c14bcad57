"""The clock of the stream's micro-batches, from its tables, day by day."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.backfill.micro_batch_clock import ClockBuilder, StoredClock
from sessionization.clock import day_start_ms, wall_clock_ms
from sessionization.durations import DAY_MS
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES, STREAM_PROGRESS

_AT = "unix_millis(processed_at)"


@contextlib.contextmanager
def stream_clock(spark: SparkSession, location: TableLocation, from_ms: int, to_ms: int) -> Iterator[StoredClock]:
    """The clock of the micro-batches from `from_ms` to a day after `to_ms`, as far as the tables record them.

    The driver holds the micro-batches of one day at a time. Its files are sent to the tasks, and exist while the body runs.
    """
    changes = location.read(spark.read, SESSION_CHANGES).where("change != 'heartbeat' AND ingested_at IS NOT NULL")
    progress = location.read(spark.read, STREAM_PROGRESS).where("query = 'sessionize'")
    bounds = progress.selectExpr(
        f"min(CASE WHEN started > 0 THEN {_AT} END) AS first_start_ms",
        f"min({_AT}) AS oldest_ms",
        f"max({_AT}) AS newest_ms",
    ).first()
    assert bounds is not None
    first_ms, last_ms = _recorded_days(spark, location, bounds.oldest_ms, bounds.newest_ms)
    first_ms, last_ms = max(first_ms, from_ms), min(last_ms, to_ms + DAY_MS)
    newest_read_ms = None
    with tempfile.TemporaryDirectory(prefix="clock-") as folder:
        builder = ClockBuilder(Path(folder))
        for day in range(last_ms // DAY_MS, first_ms // DAY_MS - 1, -1):
            begin_ms, end_ms = max(day * DAY_MS, from_ms), min((day + 1) * DAY_MS - 1, to_ms + DAY_MS)
            changed = _changing_batches(changes, begin_ms, end_ms).toPandas()
            known = progress.where(_within(begin_ms, end_ms)).selectExpr(f"{_AT} AS at", "rows_in").toPandas()
            builder.add_earlier((changed["at"], changed["oldest"], changed["newest"]), (known["at"], known["rows_in"]))
            if newest_read_ms is None and len(changed) + len(known):
                newest_read_ms = int(max([*changed["at"], *known["at"]]))
        newest_ms = wall_clock_ms() if newest_read_ms is None else newest_read_ms
        until_ms = min(to_ms, newest_ms)
        first_changed_ms = builder.first_changed_ms
        clock = builder.build(
            until_ms=until_ms,
            is_whole=first_changed_ms is not None
            and bounds.first_start_ms is not None
            and first_changed_ms <= bounds.first_start_ms,
            goes_on=max(newest_ms, bounds.newest_ms or 0) > until_ms,
        )
        for name in clock.names.values():
            spark.sparkContext.addFile(str(Path(folder) / name))
        yield clock


def _recorded_days(
    spark: SparkSession, location: TableLocation, oldest_ms: int | None, newest_ms: int | None
) -> tuple[int, int]:
    """The first and the last instant of the days that the tables record; the last is before the first without rows."""
    instants = [instant_ms for instant_ms in (oldest_ms, newest_ms) if instant_ms is not None]
    if (days := location.days(spark, SESSION_CHANGES)) is not None:
        instants += map(day_start_ms, days)
    return min(instants, default=DAY_MS), max(instants, default=0)


def _changing_batches(changes: DataFrame, begin_ms: int, end_ms: int) -> DataFrame:
    first_day, last_day = (F.to_date(F.timestamp_millis(F.lit(instant_ms))) for instant_ms in (begin_ms, end_ms))
    ingested = F.unix_millis("ingested_at")
    return (
        changes.where(F.col("change_date").between(first_day, last_day) & _within(begin_ms, end_ms))
        .groupBy(F.expr(_AT).alias("at"))
        .agg(F.min(ingested).alias("oldest"), F.max(ingested).alias("newest"))
    )


def _within(begin_ms: int, end_ms: int) -> Column:
    """Whether a micro-batch's clock lies between two instants, both included."""
    return F.col("processed_at").between(F.timestamp_millis(F.lit(begin_ms)), F.timestamp_millis(F.lit(end_ms)))
