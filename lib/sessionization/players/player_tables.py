"""Computes days of the tables, span by span, and replaces them there; doing it again changes nothing."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sessionization.players.due_days import note
from sessionization.players.player_views import PlayerViews, day_of, list_of, spans_of
from sessionization.spark.tables.schemas import (
    DAILY_ACTIVITY,
    PLAYER_DAYS,
    PLAYER_FIRST_DAYS,
    RETENTION,
    SESSION_FINDINGS,
    Table,
)

_WINDOW_DAYS = 28
"""The days of MAU; and at most so many days are computed at once, so that two windows fit into the bits of a bigint."""
RETENTION_DAYS = (0, 1, 3, 7, 14, 28, 30)
_KEY = ("player_kind", "player", "title")


@dataclass(frozen=True, slots=True)
class PlayerTables:
    """Writes the tables of a run; `check` raises an error where the run must not go on."""

    views: PlayerViews
    check: Callable[[], None]

    def write(self, due: set[date]) -> None:
        """Compute these days, and what depends on them: other days of the tables stay as they are."""
        todo, done = set(due), set()
        while todo:  # a first day that moves changes its old and its new day too
            moved = set()
            for span in spans_of(todo, _WINDOW_DAYS):
                with self.views.days(span):
                    moved |= self._write_player_days(span)
                    self._replace(SESSION_FINDINGS, "day", span, self.views.frame("session_findings"))
            done |= todo
            todo = moved - done
        last_day = self.views.today
        affected = {day + timedelta(days=n) for day in done for n in range(_WINDOW_DAYS)}
        for span in spans_of((day for day in affected if day <= last_day or day in done), _WINDOW_DAYS):
            with self.views.days(done.intersection(span)):
                self._write_daily_activity(span, last_day)
        cohorts = {day - timedelta(days=n) for day in done for n in RETENTION_DAYS}
        for span in spans_of(cohorts, 2 * _WINDOW_DAYS):
            self._write_retention(span, last_day)

    def _write_player_days(self, span: list[date]) -> set[date]:
        """Write the days of a span, and the first days; return the days on which the first day of a player moved."""
        views, spark, location = self.views, self.views.spark, self.views.location
        views.versions[PLAYER_FIRST_DAYS.name] = location.newest_version(spark, PLAYER_FIRST_DAYS)
        new = views.frame("player_days").persist()
        views.put("new_player_days", new)
        moved = views.frame("moved_first_days").persist()
        views.put("moved_first_days", moved)
        [found] = moved.selectExpr(
            "collect_set(old_day) AS old_days", "collect_set(new_day) AS new_days",
            "min(CASE WHEN is_lost THEN old_day END) AS first_lost_day",
        ).collect()  # fmt: skip
        first_days = views.frame("first_days", first_lost_day=day_of(found.first_lost_day or date.max)).persist()
        moved_days = {*found.old_days, *found.new_days}
        if found.first_lost_day is not None:
            moved_days |= {row.first_day for row in first_days.select("first_day").distinct().collect()} - {None}
        if moved_days:
            self.check()
            note(spark, location, "begun", moved_days)
            key, table = list(_KEY), location.read(spark.read, PLAYER_FIRST_DAYS)
            others = table.where(F.col("first_day").isin(moved_days)).join(first_days, key, "left_anti")
            firsts = first_days.where("first_day IS NOT NULL").select(*PLAYER_FIRST_DAYS.column_names)
            self._replace(PLAYER_FIRST_DAYS, "first_day", moved_days, others.unionByName(firsts), "first_day")
        del views.versions[PLAYER_FIRST_DAYS.name]
        self._replace(PLAYER_DAYS, "day", span, views.frame("flagged_player_days"), "day")
        for rows in (first_days, moved, new):
            rows.unpersist()
        return moved_days

    def _write_daily_activity(self, span: list[date], last_day: date) -> None:
        """Write the days of a span: those that are due anew, and of the others WAU and MAU."""
        self.views.values["window_ends"] = list_of(day for day in span if day <= last_day)
        for name in ("player_cells", "daily_players", "daily_lengths", "daily_peaks"):
            self.views.create(name)
        self.views.create("windows", first_day=day_of(span[0]), last_day=day_of(span[-1]))
        self._replace(DAILY_ACTIVITY, "day", span, self.views.frame("daily_activity"))

    def _write_retention(self, cohorts: list[date], last_day: date) -> None:
        return_days = list_of({day + timedelta(days=n) for day in cohorts for n in RETENTION_DAYS})
        values = {"due": list_of(cohorts), "return_days": return_days, "last_day": day_of(last_day)}
        self._replace(RETENTION, "cohort_day", cohorts, self.views.frame("retention", **values))

    def _replace(
        self, table: Table, column: str, days: Iterable[date], rows: DataFrame, file_per: str | None = None
    ) -> None:
        """Replace the rows of these days in one commit, in one file for each value of `file_per`, or in one file."""
        self.check()
        rows = rows.repartition(1) if file_per is None else rows.repartition(F.col(file_per))
        self.views.location.replace_where(rows.select(*table.column_names), table, f"{column} IN ({list_of(days)})")
