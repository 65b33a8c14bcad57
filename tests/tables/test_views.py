"""The views by rows: long sessions from the operator on, and figures of many sessions that are counted in Python."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.core.events import Activity, End, Event, Platform, Start
from sessionization.core.session_state import Rules
from sessionization.durations import DAY_MS, HOUR_MS, MINUTE_MS
from sessionization.event_map.reading import DEFAULT, package_map
from sessionization.spark.operator.output_rows import OUTPUT_SCHEMA
from sessionization.spark.tables.creation import fit_to_events
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES, STREAM_PROGRESS
from sessionization.spark.tables.views import create_views
from tests.support.changes import changes_frame
from tests.support.operator_engine import Engine
from tests.support.warehouse import append_sessions, empty_tables, frame_of, merge_changes

pytestmark = pytest.mark.spark

NOON_MS = 1_767_268_800_000  # 2026-01-01T12:00:00Z
STEP_MS = 20_000
FOR_EVER_MS = 2 * NOON_MS


@dataclass(frozen=True)
class PlayedSession:
    device_id: str
    session_id: int
    account_id: str | None
    platform: str
    started_ms: int | None
    ended_ms: int | None
    title: str | None = None


def evening(seed: int, count: int, begin_ms: int = NOON_MS) -> list[PlayedSession]:
    """Sessions of few players at few instants: they touch, overlap or take no time; some lack a Start or an account."""
    rng = random.Random(seed)
    played = []
    for session_id in range(count):
        started_ms = begin_ms + rng.randrange(600) * STEP_MS
        ended_ms = started_ms + rng.choice([0, 1, 1, 2, 3, 20]) * STEP_MS
        played.append(
            PlayedSession(
                device_id=f"d{rng.randrange(4)}",
                session_id=session_id,
                account_id=rng.choice(["ann", "bob", "cid", None]),
                platform=rng.choice(["pc", "console"]),
                started_ms=started_ms if rng.random() < 0.95 else None,
                ended_ms=ended_ms,
                title=rng.choice(["chess", "go", None]),
            )
        )
    live = PlayedSession("d9", count, "ann", "pc", begin_ms + 599 * STEP_MS, None)
    return [*played, live]


def at(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def row_of(session: PlayedSession) -> dict[str, Any]:
    return {
        "device_id": session.device_id, "session_id": session.session_id, "account_id": session.account_id,
        "platform": session.platform, "status": "live" if session.ended_ms is None else "ended", "revision": 0,
        "started_at": at(session.started_ms), "ended_at": at(session.ended_ms), "updated_at": at(NOON_MS),
        "title": session.title,
    }  # fmt: skip


@pytest.fixture(scope="module")
def played(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[PlayedSession]:
    location = empty_tables(spark, TableLocation(tmp_path_factory.mktemp("warehouse")), owner="test")
    fit_to_events(spark, location, package_map(DEFAULT), ("title",))
    played = evening(1, 120)
    append_sessions(spark, location, map(row_of, played))
    create_views(spark, location, ("concurrent_sessions", "account_sessions"))
    return played


def test_concurrent_sessions_counts_sessions_in_a_minute_and_their_peak(
    spark: SparkSession, played: list[PlayedSession]
) -> None:
    end_ms = NOON_MS + 240 * MINUTE_MS
    touched: Counter[tuple[int, str, str | None]] = Counter()
    for session in played:
        if session.started_ms is None:
            continue
        for minute in range(session.started_ms // MINUTE_MS, (session.ended_ms or end_ms) // MINUTE_MS + 1):
            touched[minute, session.platform, session.title] += 1
    peaks = {
        (minute, platform, title): max(
            sum(
                (other.platform, other.title) == (platform, title)
                and other.started_ms is not None
                and other.started_ms <= minute * MINUTE_MS + step_ms < (other.ended_ms or end_ms + MINUTE_MS)
                for other in played
            )
            for step_ms in range(0, MINUTE_MS, STEP_MS)
        )
        for minute, platform, title in touched
    }
    rows = spark.sql(
        f"""SELECT unix_millis(minute) DIV {MINUTE_MS} AS minute, platform, title, sessions, peak
        FROM concurrent_sessions
        WHERE unix_millis(minute) <= {end_ms}"""
    ).collect()
    assert {(row.minute, row.platform, row.title): (row.sessions, row.peak) for row in rows} == {
        key: (touched[key], peaks[key]) for key in touched
    }
    assert len(rows) == len(touched)
    assert any(touched[key] > peaks[key] for key in touched), "the history must tell the two apart"


def test_recent_concurrent_sessions_are_those_of_the_last_day_and_read_no_older_sessions(
    spark: SparkSession, tmp_path: Path
) -> None:
    location = empty_tables(spark, TableLocation(tmp_path), owner="test")
    day_ago_ms = wall_clock_ms() - DAY_MS
    from_ms, old_ms = day_ago_ms + 5 * MINUTE_MS, day_ago_ms - 3 * DAY_MS
    long_ms = old_ms + DAY_MS
    played = [
        *evening(2, 120, day_ago_ms - 100 * MINUTE_MS),
        PlayedSession("long", 997, None, "pc", long_ms, from_ms + 50 * MINUTE_MS),
        PlayedSession("live", 998, None, "pc", long_ms, None),
    ]
    append_sessions(spark, location, map(row_of, played))
    append_sessions(spark, location, [row_of(PlayedSession("old", 999, None, "pc", old_ms, old_ms + MINUTE_MS))])
    create_views(spark, location, ("concurrent_sessions", "recent_concurrent_sessions"))
    assert spark.table("concurrent_sessions").where("title IS NOT NULL").isEmpty(), "the tables have no title"

    def rows(view: str) -> list[tuple[Any, ...]]:
        found = spark.table(view).where(f"unix_millis(minute) BETWEEN {from_ms} AND {from_ms + 300 * MINUTE_MS}")
        return sorted((row.minute, row.platform, row.sessions, row.peak) for row in found.collect())

    expected = rows("concurrent_sessions")
    (old_file,) = (tmp_path / "sessions" / f"_part={at(old_ms).date()}").glob("*.parquet")
    old_file.unlink()
    assert rows("recent_concurrent_sessions") == expected
    assert len({sessions for _, _, sessions, _ in expected}) > 3
    assert min(sessions for _, platform, sessions, _ in expected if platform == "pc") == 1, "the live one"
    assert spark.table("recent_concurrent_sessions").where(f"unix_millis(minute) < {day_ago_ms}").isEmpty()


def test_sessions_of_an_account_that_overlap_or_touch_are_merged(
    spark: SparkSession, played: list[PlayedSession]
) -> None:
    rows = spark.sql(
        """SELECT account_id, unix_millis(started_at) AS started_ms, unix_millis(ended_at) AS ended_ms, duration_ms,
                  status, sessions, devices, platforms
           FROM account_sessions"""
    ).collect()
    found = sorted(
        (row.account_id, row.started_ms, row.ended_ms or 0, row.sessions, row.devices, row.platforms) for row in rows
    )
    assert found == sorted(merged(played))
    assert max(row.sessions for row in rows) > 1, "the history must have what is merged"
    for row in rows:
        assert row.status == ("live" if row.ended_ms is None else "ended")
        assert row.duration_ms == (None if row.ended_ms is None else row.ended_ms - row.started_ms)


def merged(played: list[PlayedSession]) -> Iterator[tuple]:
    """The sessions of each account, merged where they share an instant; both ends count."""
    known = [session for session in played if session.account_id is not None and session.started_ms is not None]
    groups: list[list[PlayedSession]] = []
    for session in sorted(known, key=lambda session: (session.account_id, session.started_ms)):
        last = groups[-1] if groups else []
        if last and last[0].account_id == session.account_id and session.started_ms <= max(map(end_of, last)):
            last.append(session)
        else:
            groups.append([session])
    for group in groups:
        ended_ms = max(map(end_of, group))
        yield (
            group[0].account_id, group[0].started_ms, 0 if ended_ms == FOR_EVER_MS else ended_ms, len(group),
            len({session.device_id for session in group}), sorted({session.platform for session in group}),
        )  # fmt: skip


def end_of(session: PlayedSession) -> int:
    return FOR_EVER_MS if session.ended_ms is None else session.ended_ms


RULES = Rules()
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

    def __init__(self, spark: SparkSession, folder: Path, *, has_activity: bool = False) -> None:
        self.spark, self.location, self.has_activity = spark, TableLocation(folder), has_activity
        empty_tables(spark, self.location, owner="test")
        fit_to_events(spark, self.location, package_map(DEFAULT), (), has_activity=has_activity)
        create_views(spark, self.location, ("live_sessions", "session_quality", "session_flow", "account_sessions"))

    def write(self, changes: Changes) -> None:
        """Write changes as the job does: all into `session_changes`, then all but heartbeats into `sessions`."""
        values = [tuple(row[name] for name in OUTPUT_SCHEMA.names) for row in changes]
        rows = changes_frame(self.spark, values, has_activity=self.has_activity)
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
    assert tables.query("SELECT DISTINCT last_active_at, idle_ms FROM live_sessions") == [(None, None)]
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


def test_idle_and_inactive_sessions_those_that_went_on_and_implied_starts_are_shown(
    spark: SparkSession, tmp_path: Path
) -> None:
    rules = replace(RULES, inactivity_timeout_ms=10 * MINUTE_MS, late_retention_ms=30 * MINUTE_MS)
    engine, tables = Engine(rules), Tables(spark, tmp_path, has_activity=True)

    def event(kind: type[Event], minute: int, account_id: str) -> Event:
        at_ms = BEGIN_MS + minute * MINUTE_MS
        return kind(1, at_ms, Platform.PC, at_ms, account_id)

    sent = {
        0: [("away", event(Start, 0, "ann")), ("idle", event(Start, 0, "bob"))],
        1: [("lost", event(Activity, 1, "cid"))],
        14: [("away", event(Activity, 14, "ann"))],
        16: [("idle", event(Activity, 9, "bob")), ("away", event(End, 16, "ann"))],
    }

    def play(minutes: range) -> Changes:
        micro_batches = (engine.micro_batch(BEGIN_MS + at * MINUTE_MS, sent.get(at, [])) for at in minutes)
        return [row for rows in micro_batches for row in rows if row["change"] is not None]

    def accounts() -> set[tuple[Any, ...]]:
        minutes = f"(unix_millis(ended_at) - {BEGIN_MS}) DIV {MINUTE_MS}"
        return set(tables.query(f"SELECT account_id, status, {minutes} FROM account_sessions"))

    tables.write(play(range(9)))
    minutes_idle = "SELECT device_id, round(idle_ms / 60000), unix_millis(last_active_at) FROM live_sessions"
    assert set(tables.query(minutes_idle)) == {
        ("away", 8, BEGIN_MS), ("idle", 8, BEGIN_MS), ("lost", 7, BEGIN_MS + MINUTE_MS),
    }  # fmt: skip
    assert accounts() == {("ann", "live", None), ("bob", "live", None), ("cid", "live", None)}

    tables.write(play(range(9, 16)))
    assert accounts() == {("ann", "live", None), ("bob", "ended", 0), ("cid", "ended", 1)}
    assert {row[0] for row in tables.query("SELECT device_id FROM live_sessions")} == {"away"}

    tables.write(play(range(16, 20)))
    progress = {"query": "sessionize", "batch_id": 1, "rows_in": 1, "processed_at": at(BEGIN_MS)}
    counted = frame_of(spark, STREAM_PROGRESS, [progress]).selectExpr("*", "1L AS implied_starts")
    tables.location.append(counted, STREAM_PROGRESS)
    assert {row[0] for row in tables.query("SELECT device_id FROM live_sessions")} == {"idle"}
    counts = "day, started, ended_reported, ended_inactive, resumed, implied_starts, corrected_ends"
    assert tables.query(f"SELECT {counts} FROM session_quality") == [(FIRST_DAY, 3, 1, 1, 2, 1, 1)]
    assert tables.query("SELECT sum(ended_inactive), sum(ended_reported) FROM session_flow") == [(1, 1)]
