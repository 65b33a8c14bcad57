"""`concurrent_sessions` and `account_sessions` equal the same figures counted in Python."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.durations import DAY_MS
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.views import create_views
from tests.support.warehouse import append_sessions, empty_tables

pytestmark = pytest.mark.spark

MINUTE_MS = 60_000
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
    }  # fmt: skip


@pytest.fixture(scope="module")
def played(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[PlayedSession]:
    location = empty_tables(spark, TableLocation(tmp_path_factory.mktemp("warehouse")), owner="test")
    played = evening(1, 120)
    append_sessions(spark, location, map(row_of, played))
    create_views(spark, location, ("concurrent_sessions", "account_sessions"))
    return played


def test_concurrent_sessions_counts_sessions_in_a_minute_and_their_peak(
    spark: SparkSession, played: list[PlayedSession]
) -> None:
    end_ms = NOON_MS + 240 * MINUTE_MS
    touched: Counter[tuple[int, str]] = Counter()
    for session in played:
        if session.started_ms is None:
            continue
        for minute in range(session.started_ms // MINUTE_MS, (session.ended_ms or end_ms) // MINUTE_MS + 1):
            touched[minute, session.platform] += 1
    peaks = {
        (minute, platform): max(
            sum(
                other.platform == platform
                and other.started_ms is not None
                and other.started_ms <= minute * MINUTE_MS + step_ms < (other.ended_ms or end_ms + MINUTE_MS)
                for other in played
            )
            for step_ms in range(0, MINUTE_MS, STEP_MS)
        )
        for minute, platform in touched
    }
    rows = spark.sql(
        f"""SELECT unix_millis(minute) DIV {MINUTE_MS} AS minute, platform, sessions, peak FROM concurrent_sessions
        WHERE unix_millis(minute) <= {end_ms}"""
    ).collect()
    assert {(row.minute, row.platform): (row.sessions, row.peak) for row in rows} == {
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
