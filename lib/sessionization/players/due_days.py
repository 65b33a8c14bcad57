"""Which days a run computes: those of sessions that changed, of live sessions, and those that were noted for it.

The last run and the notes are rows of `player_progress`. A run notes its days before it writes any, so that the next
one computes them again if this one is killed. Its last row replaces all others.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from sessionization.clock import utc, wall_clock_ms
from sessionization.durations import HOUR_MS
from sessionization.errors import ConfigurationError
from sessionization.players.player_views import PlayerViews, day_of, list_of
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import PLAYER_PROGRESS

Reason = Literal["run", "begun", "erased", "merged"]

REREAD_MS = HOUR_MS
"""Changes come into `sessions` in the order of `updated_at`, but for `land_changes` and for a clock that was put back.
A run reads again what was updated so long before the newest row that the last run saw."""
_ONE_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Progress:
    """The last run, and the days that wait for the next one.

    A merge of `backfill` has noted one day (UTC): sessions that start then or later may have changed, whatever their
    `updated_at`.
    """

    last: Row | None
    noted: frozenset[date]
    merged_since: date | None

    @classmethod
    def read(cls, spark: SparkSession, location: TableLocation) -> "Progress":
        rows = location.read(spark.read, PLAYER_PROGRESS).selectExpr(
            "reason", "unix_millis(read_until) AS read_until_ms", "time_zone", "days",
            "to_date(from_utc_timestamp(as_of, time_zone)) AS last_day",
        ).collect()  # fmt: skip
        last = next((row for row in rows if row.reason == "run"), None)
        noted = frozenset(day for row in rows if row.reason in {"begun", "erased"} for day in row.days)
        return cls(last, noted, min((row.days[0] for row in rows if row.reason == "merged"), default=None))

    def refuse_other_zone(self, time_zone: str) -> None:
        """Raises `ConfigurationError` where the tables have days of another zone."""
        if self.last is not None and self.last.time_zone != time_zone:
            msg = f"--time-zone {time_zone}: the days of the tables are of {self.last.time_zone}: add --rebuild, once"
            raise ConfigurationError(msg)


def note(spark: SparkSession, location: TableLocation, reason: Reason, days: Iterable[date]) -> None:
    """Let the next run compute these days anew; after a merge, this day and all later ones."""
    location.append(_row(spark, reason, days=sorted(days)), PLAYER_PROGRESS)


def finish(spark: SparkSession, location: TableLocation, read_until_ms: int, as_of_ms: int, time_zone: str) -> None:
    """Replace all rows by one that says how far a run has come."""
    row = _row(spark, "run", read_until=utc(read_until_ms), as_of=utc(as_of_ms), time_zone=time_zone)
    location.replace_rows(row, PLAYER_PROGRESS)


def _row(spark: SparkSession, reason: Reason, **values: object) -> DataFrame:
    row = {"at": utc(wall_clock_ms()), "reason": reason} | values
    return spark.createDataFrame([tuple(map(row.get, PLAYER_PROGRESS.column_names))], PLAYER_PROGRESS.schema)


def due_days(views: PlayerViews, progress: Progress, *, rebuild: bool) -> set[date]:
    """The days that a run computes, those of all sessions in a first run."""
    if progress.last is None or rebuild:
        return {views.today, *progress.noted, *_all_days(views, date.min)}
    due = {*progress.noted, *days_between(*sorted((progress.last.last_day, views.today)))}
    if progress.merged_since is not None:
        due |= _all_days(views, progress.merged_since - _ONE_DAY)
    since_ms = progress.last.read_until_ms - REREAD_MS
    changed = views.frame("played", condition=f"updated_at >= timestamp_millis({since_ms})").persist()
    views.put("played", changed)
    if around := _days_around(views):
        views.create("days", days=f"array({list_of(around)})")
        views.create("played_in_days")
        due |= {row.day for row in views.frame("changed_days", first_day=day_of(min(around))).collect()}
    changed.unpersist()
    return due


def days_between(first: date, last: date) -> frozenset[date]:
    """The days from the first to the last, both inclusive."""
    return frozenset(first + number * _ONE_DAY for number in range((last - first).days + 1))


def _all_days(views: PlayerViews, since: date) -> set[date]:
    """The days of the tables from this one on, and those around sessions that started since."""
    views.create("played", condition=f"started_at >= TIMESTAMP '{since} 00:00:00'")
    known = {row.day for row in views.frame("known_days").collect()}
    return {day for day in known | _days_around(views) if day >= since}


def _days_around(views: PlayerViews) -> set[date]:
    """The dates (UTC) of the sessions in `played` up to today, with one before and one after: a day of any zone.

    Not all from the first to the last: one device whose clock is wrong by years would make thousands of them.
    """
    dates = views.spark.table(views.sql_name("played")).select(F.to_date("started_at"), F.to_date("until_at"))
    spans = (days_between(row[0] - _ONE_DAY, min(row[1] + _ONE_DAY, views.today)) for row in dates.distinct().collect())
    return set().union(*spans)
