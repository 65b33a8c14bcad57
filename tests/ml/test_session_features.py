"""What a model may know of a session: nothing that happened at or after its start."""

import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from sessionization.clock import utc
from sessionization.ml.session_features import FEATURES, add_features, observed_sessions
from sessionization.spark.tables.schemas import SESSIONS

pytestmark = pytest.mark.spark

MONDAY_MS = int(datetime(2026, 1, 5, tzinfo=UTC).timestamp() * 1_000)
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NEVER_MS = MONDAY_MS + 30 * DAY_MS
HISTORY = ("has_history", "log_earlier_sessions", "mean_log_length", "last_log_length")


def session(
    session_id: int, start: int, end: int | None, *, account: str | None = "ann", device: str = "d1",
    reason: str = "reported", platform: str = "pc",
) -> dict[str, Any]:  # fmt: skip
    """A row of `sessions` whose start and end are minutes after Monday midnight."""
    at = lambda minutes: utc(MONDAY_MS + 60_000 * minutes)  # noqa: E731
    return dict.fromkeys(SESSIONS.column_names) | {
        "device_id": device, "session_id": session_id, "account_id": account, "platform": platform, "revision": 0,
        "status": "live" if end is None else "ended", "started_at": at(start), "ended_at": end and at(end),
        "end_reason": None if end is None else reason, "updated_at": at(end or start),
    }  # fmt: skip


def table(spark: SparkSession, rows: Iterable[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame([tuple(row[name] for name in SESSIONS.column_names) for row in rows], SESSIONS.schema)


def described(spark: SparkSession, rows: Iterable[dict[str, Any]], until_ms: int = NEVER_MS) -> dict[int, Any]:
    observed = observed_sessions(table(spark, rows), MONDAY_MS, until_ms)
    return {row.session_id: row for row in add_features(observed).collect()}


def test_ends_are_what_a_device_reported_and_live_sessions_are_censored_at_their_age(spark: SparkSession) -> None:
    rows = [
        session(1, 0, 10), session(2, 0, 20, reason="superseded"), session(3, 0, 720, reason="timed_out"),
        session(4, 30, None), session(5, 0, 90), session(6, 0, 5) | {"started_at": None, "end_reason": "orphaned"},
        session(7, 61, 62),
    ]  # fmt: skip
    observed = observed_sessions(table(spark, rows), MONDAY_MS, MONDAY_MS + HOUR_MS).collect()
    assert {row.session_id: (row.length_s, row.has_ended) for row in observed} == {
        1: (600, True), 2: (1_200, True), 4: (1_800, False), 5: (3_600, False),
    }  # fmt: skip


def test_a_length_is_in_whole_seconds_and_at_least_one(spark: SparkSession) -> None:
    instant = session(1, 0, 1) | {"ended_at": utc(MONDAY_MS)}
    longer = session(2, 0, 1) | {"ended_at": utc(MONDAY_MS + 1_001)}
    observed = observed_sessions(table(spark, [instant, longer]), MONDAY_MS, NEVER_MS).collect()
    assert {row.session_id: row.length_s for row in observed} == {1: 1, 2: 2}


def test_the_start_gives_platform_time_of_day_and_weekend(spark: SparkSession) -> None:
    saturday = 5 * 24 * 60
    rows = described(spark, [session(1, 6 * 60, 400), session(2, saturday, saturday + 1, platform="console")])
    assert [round(rows[1][name], 9) for name in FEATURES[:4]] == [0, 1, 0, 0]
    assert [round(rows[2][name], 9) for name in FEATURES[:4]] == [1, 0, 1, 1]


def test_history_is_of_the_account_on_all_devices_or_of_the_device_without_account(spark: SparkSession) -> None:
    rows = described(
        spark,
        [
            session(1, 0, 10), session(2, 20, 50, device="d2"), session(3, 60, 70),
            session(4, 0, 5, account=None, device="d3"), session(5, 60, 70, account=None, device="d3"),
        ],
    )  # fmt: skip
    assert [rows[1][name] for name in HISTORY] == [0, 0, 0, 0]
    assert [rows[3][name] for name in HISTORY] == pytest.approx([1, 1.0986, (6.3969 + 7.4955) / 2, 7.4955], abs=1e-4)
    assert [rows[5][name] for name in HISTORY] == pytest.approx([1, 0.6931, 5.7038, 5.7038], abs=1e-4)


def test_a_session_that_ends_with_the_start_of_another_is_not_earlier(spark: SparkSession) -> None:
    rows = described(spark, [session(1, 0, 10, reason="superseded"), session(2, 10, 30), session(3, 11, 12)])
    assert (rows[2].has_history, rows[3].has_history) == (0, 1)
    assert rows[3].log_earlier_sessions == pytest.approx(0.6931, abs=1e-4), "session 2 goes on"


def test_no_feature_changes_with_what_happens_after_the_start(spark: SparkSession) -> None:
    """The law: features at a start are the same whether the table knows the future or not."""
    rng = random.Random(1)
    rows = []
    for number in range(150):
        start = rng.randrange(0, 4 * 24 * 60)
        end = None if rng.random() < 0.1 else start + rng.randrange(1, 300)
        account = rng.choice(["ann", "bob", None])
        reason = rng.choice(["reported", "reported", "superseded", "timed_out"])
        rows.append(session(number, start, end, account=account, device=f"d{number % 3}", reason=reason))
    known_later = described(spark, rows)
    for minutes in (600, 2_000, 4_000):
        at = utc(MONDAY_MS) + timedelta(minutes=minutes)
        past = [row for row in rows if row["started_at"] <= at]
        unknown = {"ended_at": None, "end_reason": None, "status": "live"}
        as_it_was = [row | unknown if row["ended_at"] is None or row["ended_at"] >= at else row for row in past]
        known_then = described(spark, as_it_was, MONDAY_MS + 60_000 * minutes + 1)
        for row in past:
            if row["end_reason"] != "timed_out":
                before, after = known_then[row["session_id"]], known_later[row["session_id"]]
                assert [before[name] for name in FEATURES] == [after[name] for name in FEATURES]
