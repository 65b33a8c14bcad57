"""The forecast: what a model may know, how it is judged, and what it writes, on players with and without habits."""

import math
import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lifelines", reason="lifelines is not installed: make notebooks installs it")
pytest.importorskip("mlflow", reason="MLflow is not installed: make notebooks installs it")

import mlflow
import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from sessionization.clock import utc
from sessionization.command_line.parser import read_settings
from sessionization.errors import ConfigurationError
from sessionization.ml import forecast
from sessionization.ml.forecast import FEATURES, REMAINING, ForecastSettings, LengthModel, described_sessions
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_PREDICTIONS, SESSIONS
from tests.support.settings import settings_of
from tests.support.warehouse import append_sessions, empty_tables, frame_of

MONDAY_MS = int(datetime(2026, 1, 5, tzinfo=UTC).timestamp() * 1_000)
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NEVER_MS = MONDAY_MS + 30 * DAY_MS
AS_OF_MS = MONDAY_MS + 5 * DAY_MS
HISTORY = ("has_history", "log_earlier_sessions", "mean_log_length", "last_log_length")
SOURCES = {"baseline": {"p50_gain_min": 0.0, "p50_gain_error_min": 0.1}, "model": {
    "p50_gain_min": 1.0, "p50_gain_error_min": 0.1}}  # fmt: skip
CURVE = pd.Series([1.0, 0.75, 0.25, 0.0], index=[0.0, 600.0, 1_800.0, 7_200.0])


def session(
    session_id: int, start: float, end: float | None, *, account: str | None = "ann", device: str = "d1",
    reason: str = "reported", platform: str = "pc",
) -> dict[str, Any]:  # fmt: skip
    """A row of `sessions` whose start and end are minutes after Monday midnight."""
    started_at, ended_at = (None if at is None else utc(MONDAY_MS + int(60_000 * at)) for at in (start, end))
    return {
        "device_id": device, "session_id": session_id, "account_id": account, "platform": platform, "revision": 0,
        "status": "live" if end is None else "ended", "started_at": started_at, "ended_at": ended_at,
        "end_reason": None if end is None else reason, "updated_at": ended_at or started_at,
    }  # fmt: skip


def described(spark: SparkSession, rows: Iterable[dict[str, Any]], until_ms: int = NEVER_MS) -> dict[int, Any]:
    found = described_sessions(frame_of(spark, SESSIONS, rows), MONDAY_MS, until_ms).collect()
    return {row.session_id: row for row in found}


def players(spread_of_habits: float, count: int = 40) -> list[dict[str, Any]]:
    """Each player starts a session every few hours on a PC, whose length is log-normal about the player's habit."""
    rng = np.random.default_rng(7)
    rows = list[dict[str, Any]]()
    for player in range(count):
        habit = rng.normal(math.log(25), spread_of_habits)
        at = rng.uniform(0, 180)
        while at < 5 * 24 * 60:
            end = at + rng.lognormal(habit, 0.5)
            is_over = end < 5 * 24 * 60
            rows.append(session(len(rows), at, end if is_over else None, account=f"a{player}", device=f"d{player}"))
            at = end + rng.uniform(10, 360)
    return rows


def trained(spark: SparkSession, spread_of_habits: float, count: int = 40) -> tuple[DataFrame, LengthModel]:
    rows = described_sessions(frame_of(spark, SESSIONS, players(spread_of_habits, count)), MONDAY_MS, AS_OF_MS)
    return rows, forecast.train(rows)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")


def test_the_registered_model_is_in_the_schema_of_the_tables() -> None:
    in_catalog = read_settings(ForecastSettings, ["--catalog", "games", "--schema", "prod"])
    assert in_catalog.registered_model == "games.prod.session_length"
    assert read_settings(ForecastSettings, ["--warehouse", "t"]).registered_model == "session_length"
    with pytest.raises(ConfigurationError, match="--days '0' is too small"):
        read_settings(ForecastSettings, ["--warehouse", "t", "--days", "0"])


@pytest.mark.parametrize(
    ("age_s", "share", "expected_s"),
    [(0, 0.1, 600), (0, 0.5, 1_800), (0, 0.75, 1_800), (600, 0.5, 1_200), (1_799, 0.5, 1), (1_800, 0.1, 5_400),
     (9_000, 0.5, 0)],
)  # fmt: skip
def test_the_baseline_forecasts_by_the_share_that_goes_on_after_the_age(
    age_s: float, share: float, expected_s: float
) -> None:
    model = LengthModel(None, CURVE, metrics=SOURCES["baseline"])
    assert model.remaining_s(pd.DataFrame({"age_s": [age_s]}), share).tolist() == [expected_s]


def test_a_gain_that_chance_explains_leaves_the_forecast_to_the_baseline() -> None:
    gains = {gain: LengthModel(None, CURVE, metrics={"p50_gain_min": gain, "p50_gain_error_min": 0.5}).source
             for gain in (-1.0, 0.9, 1.1)}  # fmt: skip
    assert gains == {-1.0: "baseline", 0.9: "baseline", 1.1: "model"}


@pytest.mark.spark
def test_ends_are_what_a_device_reported_and_live_sessions_are_censored_at_their_age(spark: SparkSession) -> None:
    rows = [
        session(1, 0, 10), session(2, 0, 20, reason="superseded"), session(3, 0, 720, reason="timed_out"),
        session(4, 30, None), session(5, 0, 90), session(6, 0, 5) | {"started_at": None, "end_reason": "orphaned"},
        session(7, 61, 62), session(8, 5, 5), session(9, 5, 5.02), session(10, 0, 30, reason="inactive"),
    ]  # fmt: skip
    found = described(spark, rows, MONDAY_MS + HOUR_MS)
    assert {number: (row.length_s, row.has_ended) for number, row in found.items()} == {
        1: (600, True), 2: (1_200, True), 4: (1_800, False), 5: (3_600, False), 8: (1, True), 9: (2, True),
        10: (1_800, True),
    }  # fmt: skip


@pytest.mark.spark
def test_the_start_gives_platform_time_of_day_and_weekend(spark: SparkSession) -> None:
    saturday = 5 * 24 * 60
    rows = described(spark, [session(1, 6 * 60, 400), session(2, saturday, saturday + 1, platform="console")])
    assert [round(rows[1][name], 9) for name in FEATURES[:4]] == [0, 1, 0, 0]
    assert [round(rows[2][name], 9) for name in FEATURES[:4]] == [1, 0, 1, 1]


@pytest.mark.spark
def test_history_is_of_the_account_on_all_devices_or_of_the_device_without_account(spark: SparkSession) -> None:
    rows = described(
        spark,
        [
            session(1, 0, 10, reason="superseded"), session(2, 10, 50, device="d2"), session(3, 60, 70),
            session(4, 0, 5, account=None, device="d3"), session(5, 60, 70, account=None, device="d3"),
        ],
    )  # fmt: skip
    assert [rows[1][name] for name in HISTORY] == [0, 0, 0, 0]
    assert [rows[2][name] for name in HISTORY] == [0, 0, 0, 0], "session 1 ends with its start, not before"
    assert [rows[3][name] for name in HISTORY] == pytest.approx([1, 1.0986, (6.3969 + 7.7832) / 2, 7.7832], abs=1e-4)
    assert [rows[5][name] for name in HISTORY] == pytest.approx([1, 0.6931, 5.7038, 5.7038], abs=1e-4)


@pytest.mark.spark
def test_no_feature_changes_with_what_happens_after_the_start(spark: SparkSession) -> None:
    """The law: features at a start are the same whether the table knows the future or not."""
    rng = random.Random(1)
    rows = []
    for number in range(150):
        start = rng.randrange(1, 4 * 24 * 60)
        end = None if rng.random() < 0.1 else start + rng.randrange(1, 300)
        account = rng.choice(["ann", "bob", None])
        reason = rng.choice(["reported", "reported", "superseded", "timed_out"])
        rows.append(session(number, start, end, account=account, device=f"d{number % 3}", reason=reason))
    known_later = described(spark, rows)
    for minutes in (600, 4_000):
        at = utc(MONDAY_MS) + timedelta(minutes=minutes)
        past = [row for row in rows if row["started_at"] <= at]
        unknown = {"ended_at": None, "end_reason": None, "status": "live"}
        as_it_was = [row | unknown if row["ended_at"] is None or row["ended_at"] >= at else row for row in past]
        known_then = described(spark, as_it_was, MONDAY_MS + 60_000 * minutes + 1)
        for row in past:
            if row["end_reason"] != "timed_out":
                before, after = known_then[row["session_id"]], known_later[row["session_id"]]
                assert [before[name] for name in FEATURES] == [after[name] for name in FEATURES]


@pytest.mark.spark
def test_habits_are_learned_and_each_live_session_gets_a_forecast_from_the_registry(
    spark: SparkSession, tmp_path: Path, store: None
) -> None:
    rows, model = trained(spark, spread_of_habits=1.0)
    assert model.source == "model", model.metrics
    assert model.metrics["model.concordance"] > 0.65
    overall = model.scores[model.scores["age_min"] == "all"].set_index("source")
    for source in SOURCES:
        assert overall.loc[source, list(overall.columns[-3:])].tolist() == pytest.approx([0.1, 0.5, 0.9], abs=0.07)
    assert len(model.scores) == 2 * 5, "at the start, at three quarters, and all together"

    settings = settings_of(ForecastSettings, warehouse=tmp_path / "tables")
    forecast.register(model, settings)
    read, version = forecast.champion(settings)
    assert (read.metrics, version) == (model.metrics, "1")
    forecast.write(forecast.forecasts(rows, AS_OF_MS, read, version), settings)
    location = TableLocation(settings.tables.warehouse)
    written = location.read(spark.read, SESSION_PREDICTIONS).orderBy("session_id").toPandas()
    live = rows.where("NOT has_ended").orderBy("session_id").toPandas()
    assert written["session_id"].tolist() == live["session_id"].tolist() != []
    assert written[list(REMAINING)].equals(model.predict(live.assign(age_s=written["age_ms"] / 1_000)))
    assert (written["remaining_p10_ms"] < written["remaining_p50_ms"]).all()
    assert set(written["source"]) == {"model"}
    assert {at.timestamp() for at in written["as_of"].dt.tz_localize(UTC)} == {AS_OF_MS / 1_000}
    fields = location.read(spark.read, SESSION_PREDICTIONS).schema
    comments = {field.name: field.metadata.get("comment") for field in fields}
    assert comments == {column.name: column.comment for column in SESSION_PREDICTIONS.columns}
    forecast.write(forecast.forecasts(rows.where("device_id < 'd2'"), AS_OF_MS, read, version), settings)
    assert location.read(spark.read, SESSION_PREDICTIONS).count() < len(live), "the rows of before are gone"

    registered = mlflow.pyfunc.load_model("models:/session_length@champion")
    example = live.assign(age_s=60.0)[[*FEATURES, "age_s"]].head(2)
    assert registered.predict(example).equals(model.predict(example))


@pytest.mark.spark
def test_where_players_have_no_habits_the_baseline_forecasts(spark: SparkSession) -> None:
    rows, model = trained(spark, spread_of_habits=0.0)
    assert model.source == "baseline", model.metrics
    found = forecast.forecasts(rows, AS_OF_MS, model, "3").toPandas()
    assert set(found["source"]) == {"baseline"}
    expected = model.remaining_s(pd.DataFrame({"age_s": found["age_ms"] / 1_000}), 0.5, "baseline")
    assert found["remaining_p50_ms"].tolist() == np.rint(1_000 * expected).tolist()


@pytest.mark.spark
def test_a_quarter_of_the_sessions_that_ended_is_held_back_for_the_test(spark: SparkSession) -> None:
    def held_back(rows: list[dict[str, Any]], until_ms: int) -> float:
        model = forecast.train(described_sessions(frame_of(spark, SESSIONS, rows), MONDAY_MS, until_ms))
        return model.metrics["tested_sessions"]

    evening = [session(number, number / 4, number / 4 + 2 + number % 7, device=f"d{number}") for number in range(200)]
    assert held_back(evening, MONDAY_MS + 2 * HOUR_MS) == 51
    first_hour = [(number / 10, number / 10 + 4 + number * 7 % 30) for number in range(600)]
    rows = [session(n, at, end if end < 60 else None, device=f"d{n}") for n, (at, end) in enumerate(first_hour)]
    ended = sum(end < 60 for _, end in first_hour)
    assert abs(held_back(rows, MONDAY_MS + HOUR_MS) - ended / 4) <= 1, "although most new sessions are live"
    assert held_back(players(1.0, count=10), AS_OF_MS + 3 * DAY_MS) > 10, "although nobody has played for days"


@pytest.mark.spark
def test_what_is_missing_is_said_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    settings, location = settings_of(ForecastSettings, warehouse=tmp_path), TableLocation(tmp_path)
    with pytest.raises(ConfigurationError, match="does not hold sessions, stream_progress: give the location"):
        forecast.past_and_live(spark, settings)
    empty_tables(spark, location, owner="nobody")
    with pytest.raises(ConfigurationError, match="holds no session yet: start the sessionize job"):
        forecast.past_and_live(spark, settings)
    append_sessions(spark, location, players(1.0, count=2))
    rows, as_of_ms = forecast.past_and_live(spark, settings)
    assert AS_OF_MS - DAY_MS < as_of_ms <= AS_OF_MS
    with pytest.raises(ConfigurationError, match=r"at least 100 and 10 are needed: give more days"):
        forecast.train(rows)
    with pytest.raises(ConfigurationError, match="too few sessions have ended to learn from: 0 before"):
        forecast.train(rows.where("false"))
