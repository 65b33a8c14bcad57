"""The views on who played when, against the same counted instant by instant in Python."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSIONS
from sessionization.spark.tables.views import create_views
from tests.spark.warehouse import empty_tables

MINUTE_MS = 60_000
NOON_MS = 1_767_268_800_000  # 2026-01-01T12:00:00Z
STEP_MS = 20_000


@dataclass(frozen=True)
class Played:
    device_id: str
    session_id: int
    account_id: str | None
    platform: str
    started_ms: int | None
    ended_ms: int | None


def evening(seed: int, count: int) -> list[Played]:
    """Sessions of few players on few instants: they touch, overlap, take no time at all; some have no Start or account."""
    rng = random.Random(seed)
    played = []
    for session_id in range(count):
        started_ms = NOON_MS + rng.randrange(300) * STEP_MS
        ended_ms = started_ms + rng.choice([0, 1, 1, 2, 3, 20]) * STEP_MS
        played.append(
            Played(
                device_id=f"d{rng.randrange(4)}",
                session_id=session_id,
                account_id=rng.choice(["ann", "bob", "cid", None]),
                platform=rng.choice(["pc", "console"]),
                started_ms=started_ms if rng.random() < 0.95 else None,
                ended_ms=ended_ms,
            )
        )
    live = Played("d9", count, "ann", "pc", NOON_MS + 299 * STEP_MS, None)
    return [*played, live]


def at(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


@pytest.fixture(scope="module", params=[1, 2])
def played(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator:
    location = TableLocation(tmp_path_factory.mktemp("warehouse"))
    empty_tables(spark, location, owner="test")
    played = evening(request.param, 60)
    rows = []
    for one in played:
        values = dict.fromkeys(SESSIONS.column_names) | {
            "device_id": one.device_id, "session_id": one.session_id, "account_id": one.account_id,
            "platform": one.platform, "status": "live" if one.ended_ms is None else "ended", "revision": 0,
            "started_at": at(one.started_ms), "ended_at": at(one.ended_ms), "updated_at": at(NOON_MS),
        }  # fmt: skip
        rows.append(tuple(values.values()))
    location.append(spark.createDataFrame(rows, SESSIONS.schema), SESSIONS)
    create_views(spark, location)
    return played


def test_sessions_that_touch_a_minute_and_the_most_at_one_instant(spark: SparkSession, played: list[Played]) -> None:
    end_ms = NOON_MS + 140 * MINUTE_MS
    touched: Counter[tuple[int, str]] = Counter()
    for one in played:
        if one.started_ms is None:
            continue
        for minute in range(one.started_ms // MINUTE_MS, (one.ended_ms or end_ms) // MINUTE_MS + 1):
            touched[minute, one.platform] += 1
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


def test_an_account_s_sessions_that_overlap_or_touch_are_one(spark: SparkSession, played: list[Played]) -> None:
    rows = spark.sql(
        """SELECT account_id, unix_millis(started_at) AS started_ms, unix_millis(ended_at) AS ended_ms, duration_ms, status,
                  sessions, devices, platforms
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


def merged(played: list[Played]) -> Iterator[tuple]:
    """Sets of sessions, joined as long as two of them share an instant, both ends counted."""
    groups = [[one] for one in played if one.account_id is not None and one.started_ms is not None]
    for group in groups:
        if not group:
            continue
        while True:
            near = [other for other in groups if other is not group and other and shares_an_instant(group, other)]
            if not near:
                break
            for other in near:
                group.extend(other)
                other.clear()
    for group in groups:
        if group:
            is_live = any(one.ended_ms is None for one in group)
            yield (
                group[0].account_id, min(one.started_ms for one in group),
                0 if is_live else max(one.ended_ms for one in group), len(group),
                len({one.device_id for one in group}), sorted({one.platform for one in group}),
            )  # fmt: skip


def shares_an_instant(some: list[Played], others: list[Played]) -> bool:
    for_ever = NOON_MS * 2
    return any(
        one.account_id == other.account_id
        and one.started_ms <= (other.ended_ms or for_ever)
        and other.started_ms <= (one.ended_ms or for_ever)
        for one in some
        for other in others
    )
