"""The clock of the stream's micro-batches, from its tables, day by day."""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from sessionization.clock import wall_clock_ms
from sessionization.durations import DAY_MS
from sessionization.spark.replay.micro_batch_clock import ClockBuilder, StoredClock
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES, STREAM_PROGRESS

_AT = "unix_millis(processed_at)"
_MICRO_BATCHES_AT_ONCE = 100_000
"""A little more than a day with one per second."""


@contextlib.contextmanager
def stream_clock(spark: SparkSession, location: TableLocation, from_ms: int, to_ms: int) -> Iterator[StoredClock]:
    """The clock of the micro-batches from `from_ms` to a day after `to_ms`, as far as the tables record them.

    The driver holds the micro-batches of a day or so at a time. The clock's files are sent to the tasks, and exist
    while the body runs.
    """
    changes = location.read(spark.read, SESSION_CHANGES).where("change != 'heartbeat' AND ingested_at IS NOT NULL")
    progress = location.read(spark.read, STREAM_PROGRESS).where("query = 'sessionize'")
    recorded = _recorded_days(progress)
    newest_recorded_ms = max((day.newest_ms for day in recorded), default=0)
    first_start_ms = min((day.first_start_ms for day in recorded if day.first_start_ms is not None), default=None)
    newest_read_ms = None
    with tempfile.TemporaryDirectory(prefix="clock-") as folder:
        builder = ClockBuilder(Path(folder))
        for begin_ms, end_ms in spans(from_ms, to_ms + DAY_MS, {day.day: day.micro_batches for day in recorded}):
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
            is_whole=first_changed_ms is not None and first_start_ms is not None and first_changed_ms <= first_start_ms,
            goes_on=max(newest_ms, newest_recorded_ms) > until_ms,
        )
        for name in clock.names.values():
            spark.sparkContext.addFile(str(Path(folder) / name))
        yield clock


def spans(begin_ms: int, end_ms: int, micro_batches: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Divide a time into spans of whole days, each with some hundred thousand micro-batches at most, the latest first.

    Args:
        begin_ms: the first instant.
        end_ms: the last instant.
        micro_batches: the number of micro-batches, by day since the epoch; other days have none.
    """
    count = 0
    for day in sorted(micro_batches, reverse=True):
        count += micro_batches[day]
        if count >= _MICRO_BATCHES_AT_ONCE and begin_ms < day * DAY_MS <= end_ms:
            yield day * DAY_MS, end_ms
            end_ms, count = day * DAY_MS - 1, 0
    yield begin_ms, end_ms


def _recorded_days(progress: DataFrame) -> list[Row]:
    """The days of `stream_progress`, with `day` since the epoch, `micro_batches`, `first_start_ms` and `newest_ms`."""
    days = progress.groupBy(F.expr(f"CAST(floor({_AT} / {DAY_MS}) AS bigint)").alias("day")).agg(
        F.expr("count(*) AS micro_batches"),
        F.expr(f"min(CASE WHEN started > 0 THEN {_AT} END) AS first_start_ms"),
        F.expr(f"max({_AT}) AS newest_ms"),
    )
    return days.collect()


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
