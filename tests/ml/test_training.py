"""Training, judging and scoring on players whose habits are known, and on players without any."""

import math
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.clock import utc
from sessionization.errors import ConfigurationError
from sessionization.ml import scoring, training
from sessionization.ml.evaluation import TestSessions, evaluate
from sessionization.ml.length_model import PROBABILITIES, LengthModel
from sessionization.ml.session_features import FEATURES, add_features, observed_sessions
from sessionization.ml.survival import SurvivalCurve
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_PREDICTIONS, SESSIONS, STREAM_PROGRESS
from tests.tables.warehouse import append_sessions, empty_tables, frame_of

BEGIN_MS = int(datetime(2026, 1, 5, tzinfo=UTC).timestamp() * 1_000)
DAY_MS = 86_400_000
DAYS = 5
AS_OF_MS = BEGIN_MS + DAYS * DAY_MS
CURVE = SurvivalCurve((600.0, 1_800.0, 7_200.0), (0.75, 0.25, 0.0))


def model(*, beats_baseline: bool = True) -> LengthModel:
    coefficients = dict(zip(FEATURES, (0.3, 0.1, -0.2, 0.05, -3.5, 0.02, 0.4, 0.1), strict=True))
    return LengthModel(7.3, coefficients, 0.8, CURVE, beats_baseline, AS_OF_MS)


def players(spark: SparkSession, spread_of_habits: float, count: int = 40) -> DataFrame:
    """Rows of `sessions`: each player starts a session every few hours, whose length is log-normal about the habit."""
    rng = np.random.default_rng(7)
    rows = []
    for player in range(count):
        habit = rng.normal(math.log(1_500), spread_of_habits)
        at_ms = BEGIN_MS + rng.integers(0, 3 * 3_600_000)
        while at_ms < AS_OF_MS:
            ended_ms = at_ms + int(1_000 * rng.lognormal(habit, 0.5))
            is_live = ended_ms >= AS_OF_MS
            row: dict[str, Any] = dict.fromkeys(SESSIONS.column_names) | {
                "device_id": f"d{player}", "session_id": len(rows), "account_id": f"a{player}", "revision": 0,
                "platform": "console" if player % 2 else "pc", "status": "live" if is_live else "ended",
                "started_at": utc(int(at_ms)), "ended_at": None if is_live else utc(ended_ms),
                "end_reason": None if is_live else "reported", "updated_at": utc(min(ended_ms, AS_OF_MS)),
            }  # fmt: skip
            rows.append(tuple(row[name] for name in SESSIONS.column_names))
            at_ms = ended_ms + rng.integers(600_000, 6 * 3_600_000)
    return spark.createDataFrame(rows, SESSIONS.schema)


def test_json_holds_a_model_exactly() -> None:
    assert LengthModel.from_json(model().to_json()) == model()


def test_a_model_that_knows_the_law_beats_the_baseline_and_is_calibrated() -> None:
    rng = np.random.default_rng(1)
    features = np.zeros((4_000, len(FEATURES)))
    features[:, 4], features[:, 6] = 1, rng.normal(7, 1.5, 4_000)
    log_scale = model().intercept + features @ np.array(list(model().coefficients.values()))
    length_s = np.ceil(np.exp(log_scale) * rng.exponential(1, 4_000) ** model().sigma)
    curve = SurvivalCurve.of(np.sort(length_s), 1 - np.arange(1, 4_001) / 4_000)
    knowing = LengthModel(model().intercept, model().coefficients, model().sigma, curve, False, 0)
    sessions = TestSessions(features, length_s, np.full(4_000, True), np.arange(4_000).astype(object))
    found = evaluate(knowing, sessions)
    assert found.beats_baseline
    assert found.score("model").coverage == pytest.approx(0.8, abs=0.02)
    assert found.calibration["model"] == pytest.approx([level / 10 for level in range(1, 10)], abs=0.03)
    assert [score.age_s for score in found.scores if score.source == "model"][:2] == [None, 0]


def test_of_two_equal_forecasts_none_beats_the_other() -> None:
    lengths = np.arange(1.0, 500.0)
    curve = SurvivalCurve.of(lengths, 1 - np.arange(1, 500) / 499)
    features = np.zeros((499, len(FEATURES)))
    exact = LengthModel(math.log(250), dict.fromkeys(FEATURES, 0.0), 0.5, curve, False, 0)
    found = evaluate(exact, TestSessions(features, lengths, np.full(499, True), np.arange(499).astype(object)))
    assert not found.beats_baseline
    assert "the model does not beat the baseline: p50 loss" in found.verdict()


@pytest.mark.spark
def test_the_regression_finds_known_coefficients_although_sessions_are_censored(spark: SparkSession) -> None:
    rng, count = np.random.default_rng(3), 5_000
    features = rng.normal(0, 1, (count, len(FEATURES)))
    known = np.array([0.5, -0.3, 0.0, 0.2, 0.1, -0.6, 0.8, 0.0])
    length_s = np.exp(7 + features @ known) * rng.exponential(1, count) ** 0.7
    seen_s = rng.exponential(6_000, count)
    rows = [
        (int(np.ceil(min(length, seen))), bool(length <= seen), *map(float, values))
        for length, seen, values in zip(length_s, seen_s, features, strict=True)
    ]
    assert 0.15 < np.mean(length_s > seen_s) < 0.5
    columns = ", ".join(f"{name} double" for name in FEATURES)
    found = training.fit(spark.createDataFrame(rows, f"length_s long, has_ended boolean, {columns}").coalesce(2))
    assert list(found.coefficients) == list(FEATURES)
    assert list(found.coefficients.values()) == pytest.approx(known, abs=0.05)
    assert (found.intercept, found.sigma) == pytest.approx((7, 0.7), abs=0.05)


@pytest.mark.spark
def test_the_newest_instant_is_of_a_micro_batch_or_of_a_later_change(spark: SparkSession, tmp_path: Path) -> None:
    location = TableLocation(tmp_path)
    empty_tables(spark, location, owner="test")
    session = {"session_id": 1, "platform": "pc", "status": "live", "revision": 0, "started_at": utc(BEGIN_MS)}

    def change(device_id: str, at_ms: int) -> None:
        append_sessions(spark, location, [session | {"device_id": device_id, "updated_at": utc(at_ms)}])

    def newest_days() -> float | None:
        newest_ms = training.newest_instant_ms(spark, location)
        return None if newest_ms is None else (newest_ms - BEGIN_MS) / DAY_MS

    assert newest_days() is None
    change("before", BEGIN_MS)
    assert newest_days() == 0
    (old_file,) = tmp_path.glob("sessions/_part=live/*.parquet")
    progress = {"query": "archive", "batch_id": 1, "processed_at": utc(BEGIN_MS + DAY_MS), "rows_in": 1}
    location.append(frame_of(spark, STREAM_PROGRESS, [progress]), STREAM_PROGRESS)
    old_file.unlink()
    assert newest_days() == 1, "and the older sessions are not read"
    change("after", BEGIN_MS + 2 * DAY_MS)
    assert newest_days() == 2


@pytest.mark.spark
def test_habits_are_learned_and_live_sessions_get_a_forecast_in_a_table(spark: SparkSession, tmp_path: Path) -> None:
    sessions = players(spark, spread_of_habits=1.0).persist()
    trained = training.train(sessions, BEGIN_MS, AS_OF_MS)
    assert trained.evaluation.beats_baseline, trained.evaluation.verdict()
    assert trained.split_ms == AS_OF_MS - DAY_MS
    assert trained.model.trained_until_ms == trained.split_ms

    location = TableLocation(tmp_path / "tables")
    live = {row.session_id for row in sessions.where("status = 'live'").collect()}
    rows = scoring.forecasts(sessions, trained.model, "2", BEGIN_MS, AS_OF_MS).persist()
    assert scoring.write_forecasts(spark, location, rows) == len(live) > 5
    assert scoring.write_forecasts(spark, location, rows.where("platform = 'pc'")) < len(live)
    written = location.read(spark.read, SESSION_PREDICTIONS).collect()
    assert {row.session_id for row in written} == {row.session_id for row in rows.collect() if row.platform == "pc"}
    assert {(row.source, row.model_version) for row in written} == {("model", "2")}
    assert {row.as_of for row in written} == {utc(AS_OF_MS).replace(tzinfo=None)}
    assert all(row.remaining_p10_ms < row.remaining_p50_ms < row.remaining_p90_ms for row in written)
    comments = {
        field.name: field.metadata.get("comment") for field in location.read(spark.read, SESSION_PREDICTIONS).schema
    }
    assert comments == {column.name: column.comment for column in SESSION_PREDICTIONS.columns}
    rows.unpersist()
    sessions.unpersist()


@pytest.mark.spark
def test_where_players_have_no_habits_the_model_does_not_beat_the_baseline(spark: SparkSession) -> None:
    trained = training.train(players(spark, spread_of_habits=0.0), BEGIN_MS, AS_OF_MS)
    assert not trained.evaluation.beats_baseline, trained.evaluation.verdict()
    assert trained.model.source == "baseline"


@pytest.mark.spark
def test_sql_forecasts_what_the_model_or_the_baseline_forecasts(spark: SparkSession) -> None:
    rows = add_features(observed_sessions(players(spark, 0.5, count=4), BEGIN_MS, AS_OF_MS)).select(
        "length_s", *FEATURES
    )
    forecasters = [model(beats_baseline=beats_baseline) for beats_baseline in (True, False)]
    assert [forecaster.source for forecaster in forecasters] == ["model", "baseline"]
    age_s = F.col("length_s").cast("double")
    in_sql = [column for each in forecasters for column in scoring.remaining_s(each, age_s, PROBABILITIES)]
    found = np.array([tuple(row) for row in rows.select("*", *in_sql).collect()])
    ages, features = found[:, 0], found[:, 1 : 1 + len(FEATURES)]
    for column, (forecaster, probability) in enumerate(product(forecasters, PROBABILITIES), 1 + len(FEATURES)):
        assert found[:, column] == pytest.approx(forecaster.remaining_s(features, ages, probability), rel=1e-9)


@pytest.mark.spark
def test_too_few_sessions_give_one_line(spark: SparkSession) -> None:
    with pytest.raises(ConfigurationError, match="too few sessions have ended to learn from: 0 before"):
        training.train(spark.createDataFrame([], SESSIONS.schema), BEGIN_MS, AS_OF_MS)
    with pytest.raises(ConfigurationError, match=r"at least 100 and 10 are needed: give more --days"):
        training.train(players(spark, 1.0, count=2), BEGIN_MS, AS_OF_MS)
