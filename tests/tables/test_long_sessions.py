"""Long sessions under the default rules, from the operator to the views.

One session lasts three hours; the End of another one comes a day late.
"""

from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sessionization.core.events import End, Event, Platform, Start
from sessionization.core.session_state import Rules
from sessionization.spark.operator.output_rows import OUTPUT_SCHEMA
from sessionization.spark.output.sinks import to_session_changes
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES
from sessionization.spark.tables.views import create_views
from tests.support.operator_engine import Engine
from tests.support.warehouse import empty_tables, merge_changes

pytestmark = pytest.mark.spark

RULES = Rules()
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
FIRST_DAY = datetime.now(UTC).date() - timedelta(days=6)
"""So that both days are within the last seven, of which `session_flow` tells."""
NEXT_DAY = FIRST_DAY + timedelta(days=1)
BEGIN_MS = int(datetime.combine(FIRST_DAY, time(10), UTC).timestamp() * 1_000)
DURATION_MS = 3 * HOUR_MS

Changes = list[dict[str, Any]]


def play_session(device_id: str, end_comes_ms: int, until_ms: int, every_ms: int) -> Changes:
    """The changes of a three-hour session, in micro-batches from its Start on; its End comes after `end_comes_ms`."""
    engine = Engine(RULES)
    start, end_ingested_ms = Start(1, BEGIN_MS, Platform.PC, BEGIN_MS, "ann"), BEGIN_MS + end_comes_ms
    events: dict[int, Event] = {
        BEGIN_MS: start,
        end_ingested_ms: End(1, BEGIN_MS + DURATION_MS, Platform.PC, end_ingested_ms, None, foreground_s=10_000),
    }
    return [
        row
        for now_ms in range(BEGIN_MS, BEGIN_MS + until_ms, every_ms)
        for row in engine.micro_batch(now_ms, [(device_id, events[now_ms])] if now_ms in events else [])
        if row["change"] is not None
    ]


def reasons(changes: Changes) -> list[str]:
    return [row["end_reason"] or row["change"] for row in changes if row["change"] != "heartbeat"]


class Tables:
    """The tables and views over the changes that a test has written."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.location = spark, TableLocation(folder)
        empty_tables(spark, self.location, owner="test")
        create_views(spark, self.location, ("live_sessions", "session_quality", "session_flow"))

    def write(self, changes: Changes) -> None:
        """Write changes as the job does: all into `session_changes`, then all but heartbeats into `sessions`."""
        values = [tuple(row[name] for name in OUTPUT_SCHEMA.names) for row in changes]
        rows = to_session_changes(self.spark.createDataFrame(values, OUTPUT_SCHEMA).coalesce(1))
        self.location.append(rows, SESSION_CHANGES)
        merge_changes(self.spark, self.location, rows.where("change != 'heartbeat'"))

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.spark.sql(sql).collect()]

    def live_sessions(self) -> set[tuple[Any, ...]]:
        return set(self.query("SELECT device_id, beat FROM live_sessions"))

    def sessions(self) -> dict[str, tuple[Any, ...]]:
        rows = self.query("SELECT device_id, end_reason, duration_ms, foreground_s, revision FROM sessions")
        return {row[0]: row[1:] for row in rows}

    def daily_counts(self, view: str, day: str) -> dict[date, tuple[int, ...]]:
        """Counts per day of a view: starts, and ends that are reported, superseded, timed out and orphaned."""
        counts = ("started", "ended_reported", "ended_superseded", "ended_timed_out", "ended_orphaned")
        sums = ", ".join(f"sum({name})" for name in counts)
        return {row[0]: row[1:] for row in self.query(f"SELECT {day}, {sums} FROM {view} GROUP BY {day}")}


def test_a_long_session_and_an_end_a_day_late_are_reported_and_counted_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    long = play_session("long", DURATION_MS, DURATION_MS + HOUR_MS, RULES.heartbeat_ms)
    assert reasons(long) == ["started", "reported"], "live all the time"
    assert [row["beat"] for row in long if row["beat"]] == list(range(1, 360)), "each 30 s, none missing"
    late = play_session("late", DAY_MS, DAY_MS + HOUR_MS, 5 * MINUTE_MS)
    assert reasons(late) == ["started", "timed_out", "orphaned"], "forgotten half a day before its End came"
    started, timed_out, came_late = (row for row in late if row["change"] != "heartbeat")
    without_start = play_session("lost", DAY_MS, DAY_MS + HOUR_MS, 5 * MINUTE_MS)[-1]

    tables = Tables(spark, tmp_path)
    new = started | {"device_id": "new"}
    tables.write([*long[:-1], new, started, timed_out, without_start])
    assert tables.live_sessions() == {("long", 359), ("new", None)}
    assert tables.daily_counts("session_quality", "day") == {FIRST_DAY: (3, 0, 0, 1, 0), NEXT_DAY: (0, 0, 0, 0, 1)}

    tables.write([long[-1], came_late, timed_out | {"device_id": "new"}])
    assert tables.live_sessions() == set()
    reported, timeout = ("reported", DURATION_MS, 10_000, 0), ("timed_out", 12 * HOUR_MS, None, 0)
    orphan = ("orphaned", None, 10_000, 0)
    assert tables.sessions() == {"long": reported, "late": reported, "lost": orphan, "new": timeout}
    days = {FIRST_DAY: (3, 1, 0, 1, 0), NEXT_DAY: (0, 1, 0, 0, 1)}
    zone = spark.conf.get("spark.sql.session.timeZone")
    # The views count UTC days in every session time zone.
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Kiritimati")
    try:
        assert tables.daily_counts("session_quality", "day") == days
        assert tables.daily_counts("session_flow", "change_date") == days
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
