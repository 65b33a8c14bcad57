"""Train the model of session lengths on the earlier days, and judge it on the last one.

The model is a Weibull accelerated failure time regression, fitted by Spark (`AFTSurvivalRegression`, Wei 1992), because
it counts sessions that have not ended, and its conditional quantiles are a formula. The baseline is the Kaplan-Meier
curve of the same sessions.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.regression import AFTSurvivalRegression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.durations import DAY_MS
from sessionization.errors import ConfigurationError
from sessionization.ml.evaluation import Evaluation, TestSessions, evaluate
from sessionization.ml.length_model import LengthModel
from sessionization.ml.session_features import FEATURES, add_features, observed_sessions
from sessionization.ml.survival import SurvivalCurve, kaplan_meier
from sessionization.spark.engine.cached import cached
from sessionization.spark.engine.newest import newest_ms
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSIONS, STREAM_PROGRESS

LEAST_TRAINED, LEAST_TESTED = 100, 10
"""How many sessions must have ended, before the split and after it."""
_TEST_SHARE = 0.25
_MOST_TESTED = 100_000
_MOST_STEPS = 400
_MOST_ITERATIONS = 100


@dataclass(frozen=True, slots=True)
class Training:
    """A trained model, what it was trained and tested on, and how it did.

    Attributes:
        begin_ms: the start of the first session; UTC milliseconds, as the next two.
        split_ms: the model knows what happened before this instant. Sessions that started later test it.
        as_of_ms: what happened later is not in the tables.
        trained: sessions that trained it, also live ones; `ended` of them had ended.
        tested: sessions that tested it and ended; `tested_live` others were still live.
    """

    model: LengthModel
    evaluation: Evaluation
    begin_ms: int
    split_ms: int
    as_of_ms: int
    trained: int
    ended: int
    tested: int
    tested_live: int


Draw = Callable[[Training], Any]
"""Draws the figure of a training."""


def newest_instant_ms(spark: SparkSession, location: TableLocation) -> int | None:
    """Until when the tables know what happened: the stream's newest micro-batch. None for empty tables.

    Tables that no stream wrote have no micro-batches; there it is the newest change of a session. A session that
    changed after the newest micro-batch counts too; statistics let Delta skip the files of all others.
    """
    progress, sessions = (location.read(spark.read, table) for table in (STREAM_PROGRESS, SESSIONS))
    batch_ms = newest_ms(progress, "processed_at")
    if batch_ms is not None:
        sessions = sessions.where(F.col("updated_at") > F.timestamp_millis(F.lit(batch_ms)))
    change_ms = newest_ms(sessions, "updated_at")
    return batch_ms if change_ms is None else change_ms


def train(sessions: DataFrame, since_ms: int, as_of_ms: int) -> Training:
    """Train on the sessions that started in a span, and test on its last day, or its last quarter if that is shorter.

    Args:
        sessions: rows of the table `sessions`.
        since_ms: start of the span (inclusive), UTC milliseconds.
        as_of_ms: end of the span (exclusive), and the instant of observation.

    Raises `ConfigurationError` where too few sessions have ended, or all took equally long.
    """
    observed = observed_sessions(sessions, since_ms, as_of_ms)
    begin_ms = observed.agg(F.min("started_ms")).collect()[0][0]
    if begin_ms is None:
        _refuse(0, 0)
    split_ms = as_of_ms - min(DAY_MS, int(_TEST_SHARE * (as_of_ms - begin_ms)))
    known = add_features(observed_sessions(sessions, since_ms, split_ms))
    with cached(known):
        ended, trained = known.agg(F.count_if("has_ended"), F.count("*")).collect()[0]
        later = _test_sessions(observed, split_ms)
        tested = int(later.has_ended.sum())
        if ended < LEAST_TRAINED or tested < LEAST_TESTED:
            _refuse(ended, tested)
        model = replace(fit(known), trained_until_ms=split_ms)
    evaluation = evaluate(model, later)
    model = replace(model, beats_baseline=evaluation.beats_baseline)
    counts = trained, ended, tested, len(later.has_ended) - tested
    return Training(model, evaluation, begin_ms, split_ms, as_of_ms, *counts)


def fit(described: DataFrame) -> LengthModel:
    """Fit the regression and the curve to rows of `session_features.add_features`; `beats_baseline` is still false.

    Raises `ConfigurationError` where the regression finds no solution, as when all sessions took equally long.
    """
    vectors = VectorAssembler(inputCols=list(FEATURES), outputCol="features").transform(
        described.withColumn("length_s", F.col("length_s").cast("double")).withColumn(
            "has_ended", F.col("has_ended").cast("double")
        )
    )
    regression = AFTSurvivalRegression(
        featuresCol="features", labelCol="length_s", censorCol="has_ended", maxIter=_MOST_ITERATIONS
    )
    fitted = regression.fit(vectors)
    coefficients = fitted.coefficients.toArray()
    if not (np.isfinite(coefficients).all() and np.isfinite(fitted.intercept) and 0 < fitted.scale < np.inf):
        msg = "the regression of the session lengths finds no solution: give more --days, so that lengths differ"
        raise ConfigurationError(msg)
    by_feature = dict(zip(FEATURES, coefficients.tolist(), strict=True))
    return LengthModel(float(fitted.intercept), by_feature, float(fitted.scale), _curve(described), False, 0)


def _curve(described: DataFrame) -> SurvivalCurve:
    counts = (
        described.groupBy("length_s")
        .agg(F.count_if("has_ended").alias("ended"), F.count_if(~F.col("has_ended")).alias("censored"))
        .orderBy("length_s")
        .collect()
    )
    curve = kaplan_meier(*zip(*((row.length_s, row.ended, row.censored) for row in counts), strict=True))
    return curve.thinned(_MOST_STEPS)


def _test_sessions(observed: DataFrame, split_ms: int) -> TestSessions:
    """The sessions that started after the split; of very many a part that does not depend on their order."""
    rows = (
        add_features(observed)
        .where(F.col("started_ms") >= split_ms)
        .orderBy(F.xxhash64("device_id", "session_id"))
        .limit(_MOST_TESTED)
        .select("length_s", "has_ended", "player", *FEATURES)
        .collect()
    )
    lengths, has_ended, players, *features = zip(*rows, strict=True) if rows else [()] * (3 + len(FEATURES))
    return TestSessions(
        np.array(features, np.float64).reshape(len(FEATURES), len(rows)).T,
        np.array(lengths, np.float64),
        np.array(has_ended, bool),
        np.array(players, object),
    )


def _refuse(ended: int, tested: int) -> None:
    msg = (
        f"too few sessions have ended to learn from: {ended:,} before the last day (or quarter), {tested:,} after, "
        f"at least {LEAST_TRAINED} and {LEAST_TESTED} are needed: give more --days, or let the stream run longer"
    )
    raise ConfigurationError(msg)
