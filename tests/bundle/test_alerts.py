"""The alerts go off for what they are for, and for nothing else; each reads views over a few rows."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from sessionization.spark.tables.schemas import SESSIONS, STREAM_PROGRESS, Table
from sessionization.spark.tables.view_sql import session_view_sql
from tests.bundle.prod import ALERTS, SCHEMA
from tests.support.warehouse import frame_of

pytestmark = pytest.mark.spark


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session for one test, because its temporary views have the names of those in the other tests."""
    return spark.newSession()


def alert_row(spark: SparkSession, key: str, heartbeat_ms: int = 30_000) -> tuple[Row, float, bool]:
    """The row that an alert reads from this session's views, its value, and whether the alert goes off."""
    text = ALERTS[key]["query_text"].replace(SCHEMA, "").replace("/ 30000", f"/ {heartbeat_ms}")
    (row,) = spark.sql(text).collect()
    return row, float(row[0]), float(row[0]) > ALERTS[key]["evaluation"]["threshold"]["value"]["double_value"]


Batches = list[tuple[float, float, int | None]]
"""Per micro-batch: seconds since its commit, seconds that it took, latency in milliseconds (None without events)."""
UP_TO_DATE: dict[str, Batches] = {"sessionize": [(5, 1, 900)], "archive": [(7, 1, 1_500)], "rollup": [(6, 1, 4_000)]}


def create_view_over_rows(
    spark: SparkSession, view: str, rows: dict[Table, list[dict[str, Any]]], now: datetime
) -> None:
    """Create a view over these rows in memory, as of `now`."""
    for table, table_rows in rows.items():
        frame_of(spark, table, table_rows).createOrReplaceTempView(f"some_{table.name}")
    sql = session_view_sql(view, lambda table: f"some_{table}")
    spark.sql(sql.replace("current_timestamp()", f"timestamp_micros({round(now.timestamp() * 1_000_000)})"))


def create_freshness_view(spark: SparkSession, queries: dict[str, Batches], beat_s: float | None = None) -> None:
    """Create the view `freshness` over these micro-batches, with a session whose last beat is `beat_s` seconds old."""
    now = datetime.now(UTC)
    rows = [
        {
            "query": query, "batch_id": number, "rows_in": int(latency_ms is not None), "latency_p99_ms": latency_ms,
            "latency_max_ms": latency_ms, "processed_at": now - timedelta(seconds=done_s + took_s),
            "batch_ms": int(took_s * 1000), "started": None if query != "sessionize" else 0,
            "ended": None if query != "sessionize" else int(latency_ms is not None),
        }
        for query, batches in queries.items()
        for number, (done_s, took_s, latency_ms) in enumerate(batches)
    ]  # fmt: skip
    live = [{"status": "live", "updated_at": now - timedelta(hours=1)}] if beat_s is not None else []
    if beat_s is not None:
        at = now - timedelta(seconds=beat_s)
        rows.append(
            {"query": "sessionize", "batch_id": 99, "rows_in": 0, "heartbeats": 2, "batch_ms": 0, "processed_at": at}
        )
    create_view_over_rows(spark, "freshness", {STREAM_PROGRESS: rows, SESSIONS: live}, now)


@pytest.mark.parametrize(
    ("queries", "furthest", "behind_s"),
    [
        (UP_TO_DATE, "rollup", 4),
        # A restart after eight minutes without the job.
        (UP_TO_DATE | {"sessionize": [(480, 1, 900), (9, 300, 460_000), (8, 1, 1_200)]}, "rollup", 4),
        # An outage; the job has caught up.
        (UP_TO_DATE | {"sessionize": [(1500, 1, 900), (9, 300, 1_700_000), (8, 1, 1_200)]}, "rollup", 4),
        # The first micro-batch took 25 minutes.
        (UP_TO_DATE | {"sessionize": [(3600, 1, 900), (30, 1500, 3_500_000)]}, "sessionize", 3_500),
        # No commit for 12 minutes: the job is down, or a micro-batch still runs.
        (UP_TO_DATE | {"sessionize": [(720, 1, 900)]}, "sessionize", 720),
        # No commit for days: the view reads one day, which has no row.
        (UP_TO_DATE | {"sessionize": [(200_000, 1, 900)]}, "sessionize", 86_400),
        # The job stays behind.
        (UP_TO_DATE | {"sessionize": [(500, 60, 200_000), (200, 60, 90_000), (10, 60, 120_000)]}, "sessionize", 90),
        (UP_TO_DATE | {"archive": [(300, 60, 90_000), (10, 60, 95_000)]}, "archive", 90),
        (UP_TO_DATE | {"rollup": [(300, 60, 90_000), (10, 60, 95_000)]}, "rollup", 90),
        # Only heartbeats.
        (UP_TO_DATE | {"sessionize": [(5, 1, None)]}, "rollup", 4),
        # Ends were written after the last micro-batch of rollup: it hangs, or its next one still runs.
        (UP_TO_DATE | {"sessionize": [(1450, 1, 900), (5, 1, 900)], "rollup": [(1500, 1, 900)]}, "rollup", 1450),
        # The same, but not for long enough.
        (UP_TO_DATE | {"sessionize": [(500, 1, 900), (5, 1, 900)], "rollup": [(1500, 1, 900)]}, "archive", 1.5),
        # The same for messages and archive, a minute more: another clock sets ingest times.
        (UP_TO_DATE | {"sessionize": [(1400, 1, 900), (5, 1, 900)], "archive": [(1500, 1, 900)]}, "archive", 1460.9),
        ({"sessionize": [(1400, 1, 900), (5, 1, None)]}, "archive", 1460.9),  # archive never started
        # A night: every message was read, by archive even before sessionize.
        (
            {"sessionize": [(3590, 1, 20_000), (5, 1, None)], "archive": [(3600, 1, 900)], "rollup": [(3580, 1, 900)]},
            "sessionize", 0,
        ),
        # The job is down: the view names neither the query that ran last nor the one that had work.
        ({"sessionize": [(1500, 1, 900)], "archive": [(1600, 1, 900)], "rollup": [(1505, 1, 900)]}, "sessionize", 1500),
        ({}, None, 0),
    ],
)  # fmt: skip
def test_the_backlog_alert_goes_off_for_a_lasting_backlog_and_names_the_query_that_is_furthest_behind(
    session: SparkSession, queries: dict[str, Batches], furthest: str | None, behind_s: float
) -> None:
    create_freshness_view(session, queries)
    row, value, is_firing = alert_row(session, "backlog")
    assert (value == pytest.approx(behind_s, abs=0.1), is_firing) == (True, behind_s > 60)
    assert row.behind_query == furthest


@pytest.mark.parametrize(
    ("heartbeat_ms", "beat_s", "missed", "goes_off"),
    [
        (30_000, 60, 1.5, False), (30_000, 150, 4.5, True), (120_000, 150, 1.125, False), (500, 60, 90, True),
        (500, 12, 0, False), (3_600_000, 60, 0.0125, False), (30_000, -600, 19.5, True), (30_000, -12, 0, False),
    ],
)  # fmt: skip
def test_missed_heartbeats_are_counted_in_heartbeat_intervals(
    session: SparkSession,
    heartbeat_ms: int,
    beat_s: float,
    missed: float,
    goes_off: bool,  # noqa: FBT001
) -> None:
    values = f"1 AS live, {beat_s * 1_000} AS heartbeat_age_ms, 3600000 AS oldest_live_ms"
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW freshness AS SELECT {values}")
    _, value, is_firing = alert_row(session, "stale_heartbeats", heartbeat_ms)
    assert (value == pytest.approx(missed, abs=0.01), is_firing) == (True, goes_off)


def test_the_heartbeat_alert_reads_the_newest_beat_of_the_live_sessions(session: SparkSession) -> None:
    create_freshness_view(session, UP_TO_DATE, beat_s=150)
    _, value, is_firing = alert_row(session, "stale_heartbeats")
    assert (value == pytest.approx(4.5, abs=0.01), is_firing) == (True, True)


@pytest.mark.parametrize("is_reuse", [False, True], ids=["quarantined", "ids used again"])
@pytest.mark.parametrize(("messages", "goes_off"), [(99, False), (100, True)])
def test_the_quarantine_alert_needs_a_minimum_of_messages(
    session: SparkSession,
    messages: int,
    *,
    goes_off: bool,
    is_reuse: bool,
) -> None:
    row = (datetime.now(UTC), messages, messages // 2 * (not is_reuse), messages // 2 * is_reuse)
    columns = "minute timestamp, messages bigint, quarantined bigint, reused_ids bigint"
    health = session.createDataFrame([row], columns)
    health.createOrReplaceTempView("stream_health")
    assert alert_row(session, "quarantine_share")[2] is goes_off


@pytest.mark.parametrize(
    ("ends", "percent", "goes_off"),
    [
        ({"reported": 60, "superseded": 10, "timed_out": 10, "inactive": 20}, 40, True),
        ({"reported": 60, "orphaned": 20, "inactive": 20}, 20, False),
        ({"superseded": 99}, 0, False),  # a handful
        ({"inactive": 200}, 100, True),  # the job was down for longer than the timeout
        ({}, 0, False),
    ],
)
def test_the_share_of_sessions_that_end_without_an_end_sets_off_the_alert(
    session: SparkSession, ends: dict[str, int], percent: float, *, goes_off: bool
) -> None:
    now = datetime.now(UTC)
    rows = [
        {"status": "ended", "end_reason": reason, "updated_at": now} for reason in ends for _ in range(ends[reason])
    ]
    rows += [{"status": "ended", "end_reason": "timed_out", "updated_at": now - timedelta(hours=2)}] * 500
    frame_of(session, SESSIONS, [*rows, {"status": "live", "updated_at": now}]).createOrReplaceTempView("sessions")
    _, value, is_firing = alert_row(session, "missing_ends")
    assert (value, is_firing) == (percent, goes_off)


def test_before_the_first_message_only_the_no_data_alert_goes_off(session: SparkSession) -> None:
    rows: dict[Table, list[dict[str, Any]]] = {STREAM_PROGRESS: [], SESSIONS: []}
    for view in ("freshness", "stream_health"):
        create_view_over_rows(session, view, rows, datetime.now(UTC))
    for table in (STREAM_PROGRESS, SESSIONS):
        frame_of(session, table, []).createOrReplaceTempView(table.name)
    assert {key: alert_row(session, key)[2] for key in ALERTS} == {key: key == "no_data" for key in ALERTS}


DAY, SECOND = timedelta(days=1), timedelta(seconds=1)


def after_progress(session: SparkSession, key: str, rows: list[dict[str, Any]]) -> tuple[float, bool]:
    """An alert's value, and whether it goes off, where these rows of `stream_progress` are all that there is."""
    rows = [{"query": "sessionize", "batch_id": number} | row for number, row in enumerate(rows)]
    frame_of(session, STREAM_PROGRESS, rows).createOrReplaceTempView(STREAM_PROGRESS.name)
    _, value, is_firing = alert_row(session, key)
    return value, is_firing


@pytest.mark.parametrize(
    ("entries", "growth", "goes_off"),
    [
        ([(DAY, 10_000), (DAY + SECOND, 9_000), (12 * SECOND, 99_000), (SECOND, 40_000)], 4, True),
        ([(DAY, 10_000), (SECOND, 20_000)], 2, False),
        ([(DAY, 10), (SECOND, 900)], 0.9, False),  # fewer than a thousand sessions
        ([(SECOND, 5_000_000)], 1, False),  # no day before
        ([(2 * DAY, 10), (SECOND, 5_000_000)], 1, False),
    ],
)
def test_state_is_compared_with_the_same_hour_of_the_day_before(
    session: SparkSession, entries: list[tuple[timedelta, int]], growth: float, *, goes_off: bool
) -> None:
    now = datetime.now(UTC)
    rows = [{"processed_at": now - ago, "state_entries": count} for ago, count in entries]
    assert after_progress(session, "state_growth", rows) == (growth, goes_off)
    of_another_query = [row | {"query": "archive"} for row in rows]
    assert after_progress(session, "state_growth", of_another_query) == (1, False)


@pytest.mark.parametrize(
    ("batches", "intervals", "goes_off"),
    [
        ([(500, 50, 60_000), (300, 50, 75_000), (60, 50, 90_000)], 2, True),
        ([(2_400, 700, 700_000), (1_700, 800, 800_000), (900, 850, 900_000)], 23.3, True),
        ([(500, 50, 60_000), (300, 1, 900), (60, 50, 90_000)], 0.03, False),  # one pause
        ([(100, 50, 600_000), (40, 9, 90_000)], 0, False),  # a restart works off what it missed
        ([(50, 1, None), (40, 1, None), (30, 1, None)], 0, False),
        ([(7_000, 5, 90_000), (6_000, 5, 90_000), (5_000, 5, 90_000)], 0, False),
    ],
)
def test_heartbeats_that_stay_late_set_off_the_alert_and_one_pause_does_not(
    session: SparkSession, batches: Batches, intervals: float, *, goes_off: bool
) -> None:
    """Per micro-batch: seconds since its start, seconds that it took, p99 of the lateness in milliseconds."""
    now = datetime.now(UTC)
    rows = [
        {
            "processed_at": now - timedelta(seconds=ago_s), "batch_ms": took_s * 1_000,
            "heartbeats": int(late_ms is not None), "lateness_p99_ms": late_ms,
        }
        for ago_s, took_s, late_ms in batches
    ]  # fmt: skip
    assert after_progress(session, "late_heartbeats", rows) == (pytest.approx(intervals, abs=0.05), goes_off)
