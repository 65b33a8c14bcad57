"""The queries in `sessionization/sql/players`, as views of the session over one snapshot of the tables."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import groupby
from zoneinfo import ZoneInfo

from pyspark.sql import DataFrame, SparkSession

from sessionization.clock import utc
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.statements import fill_in, read_statement
from sessionization.sql_text import quoted_text

_PREFIX = "_sessionization_players_"
_ONE_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class PlayerViews:
    """The queries by their names: one may read another, once that has become a view, and the tables.

    Tables in `versions` are read as they were at that version, whatever is written meanwhile. `values` are placeholders
    for all queries that follow.
    """

    spark: SparkSession
    location: TableLocation
    time_zone: str
    as_of_ms: int
    title: str
    versions: dict[str, int] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    created: set[str] = field(default_factory=set)

    @property
    def today(self) -> date:
        """The day of `as_of_ms`."""
        return utc(self.as_of_ms).astimezone(ZoneInfo(self.time_zone)).date()

    def frame(self, name: str, **values: str) -> DataFrame:
        """The rows of a query; `values` are its placeholders, as SQL."""
        known = {
            "zone": quoted_text(self.time_zone),
            "as_of": f"timestamp_millis({self.as_of_ms})",
            "title": self.title,
        }
        return self.spark.sql(fill_in(read_statement("players", name), self.sql_name, **known | self.values | values))

    def create(self, name: str, **values: str) -> None:
        """Make a query a view for the others."""
        self.put(name, self.frame(name, **values))

    def put(self, name: str, rows: DataFrame) -> None:
        rows.createOrReplaceTempView(f"{_PREFIX}{name}")
        self.created.add(name)

    def sql_name(self, name: str) -> str:
        """The name of a view, else of a table."""
        if name in self.created:
            return f"{_PREFIX}{name}"
        version = self.versions.get(name)
        return f"{self.location.sql_name(name)}{'' if version is None else f' VERSION AS OF {version}'}"

    @contextmanager
    def days(self, days: Iterable[date]) -> Iterator[None]:
        """Let these days be `due`, and `played_in_days` the sessions that touched them, while the body runs."""
        days = sorted(days)
        self.values["due"] = list_of(days)
        self.create("days", days=f"array({list_of(days)})")
        # A day of any zone lies within its date in UTC and a day before and after. Delta skips other files by it.
        spans = (
            f"(started_at < {_instant(span[-1] + 2 * _ONE_DAY)}"
            f" AND (ended_at IS NULL OR ended_at >= {_instant(span[0] - _ONE_DAY)}))"
            for span in _runs_of(days)
        )
        self.create("played", condition=" OR ".join(spans) or "false")
        rows = self.frame("played_in_days").persist()
        self.put("played_in_days", rows)
        try:
            yield
        finally:
            rows.unpersist()

    def drop(self) -> None:
        for name in self.created:
            self.spark.catalog.dropTempView(f"{_PREFIX}{name}")


def list_of(days: Iterable[date]) -> str:
    """Days as SQL, between commas; a null where there is none."""
    return ", ".join(map(day_of, sorted(days))) or "CAST(NULL AS date)"


def day_of(day: date) -> str:
    """A day as SQL."""
    return f"DATE '{day}'"


def spans_of(days: Iterable[date], longest: int) -> Iterator[list[date]]:
    """The days, sorted, in spans of at most `longest` days from first to last.

    >>> [len(span) for span in spans_of([date(2026, 1, day) for day in (1, 2, 3, 5)], 2)]
    [2, 1, 1]
    """
    span: list[date] = []
    for day in sorted(days):
        if span and (day - span[0]).days >= longest:
            yield span
            span = []
        span.append(day)
    if span:
        yield span


def _runs_of(days: Sequence[date]) -> Iterator[list[date]]:
    """Sorted days in runs without a gap."""
    for _, run in groupby(enumerate(days), lambda numbered: numbered[1] - numbered[0] * _ONE_DAY):
        yield [day for _, day in run]


def _instant(day: date) -> str:
    return f"TIMESTAMP '{day} 00:00:00'"
