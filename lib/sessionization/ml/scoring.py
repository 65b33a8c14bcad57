"""Forecast how long each live session will go on, as SQL over the model's numbers, and write the forecasts.

Nothing but SQL runs: no model is loaded into Spark, and no Python runs on its workers.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.durations import DAY_MS
from sessionization.ml.length_model import PROBABILITIES, LengthModel
from sessionization.ml.session_features import add_features, observed_sessions
from sessionization.spark.tables.creation import create_table
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_PREDICTIONS

REMAINING = tuple(f"remaining_p{100 * probability:.0f}_ms" for probability in PROBABILITIES)
"""The columns of the quantiles, in the order of `PROBABILITIES`."""
_LONGEST_MS = 365 * DAY_MS
_NO_CHECKPOINT = "no checkpoint"


def forecasts(sessions: DataFrame, model: LengthModel, version: str, since_ms: int, as_of_ms: int) -> DataFrame:
    """The columns of `session_predictions`, a row per session that is live at an instant.

    Args:
        sessions: rows of the table `sessions`.
        model: its better half forecasts, model or baseline.
        version: what `model_version` says.
        since_ms: how far back the players' history is read; older live sessions get no forecast. UTC milliseconds.
        as_of_ms: the instant; a session's age is the time from its start to this.
    """
    described = add_features(observed_sessions(sessions, since_ms, as_of_ms)).where("NOT has_ended")
    age_ms = F.lit(as_of_ms) - F.col("started_ms")
    remaining = remaining_s(model, age_ms / 1_000, PROBABILITIES)
    quantiles = [
        F.least(F.round(1_000 * seconds).cast("long"), F.lit(_LONGEST_MS)).alias(name)
        for name, seconds in zip(REMAINING, remaining, strict=True)
    ]
    return described.select(
        "device_id",
        "session_id",
        "account_id",
        "platform",
        "started_at",
        F.timestamp_millis(F.lit(as_of_ms)).alias("as_of"),
        age_ms.cast("long").alias("age_ms"),
        *quantiles,
        F.lit(model.source).alias("source"),
        F.lit(version).alias("model_version"),
    )


def remaining_s(model: LengthModel, age_s: Column, probabilities: Sequence[float]) -> list[Column]:
    """`LengthModel.remaining_s` in SQL: the quantiles in seconds, for rows that have `FEATURES`."""
    if model.source == "baseline":
        return [_baseline_remaining_s(model, age_s, probability) for probability in probabilities]
    log_scale = F.lit(model.intercept)
    for feature, coefficient in model.coefficients.items():
        log_scale += F.lit(coefficient) * F.col(feature)
    scale_s = F.exp(log_scale)
    hazard_so_far = F.pow(age_s / scale_s, F.lit(1 / model.sigma))
    return [
        F.greatest(
            scale_s * F.pow(hazard_so_far - F.log1p(F.lit(-probability)), F.lit(model.sigma)) - age_s, F.lit(0.0)
        )
        for probability in probabilities
    ]


def _baseline_remaining_s(model: LengthModel, age_s: Column, probability: float) -> Column:
    """As `SurvivalCurve.remaining_s`: the first time at which the share is `1 - probability` of the one at the age."""
    curve = model.baseline
    steps = F.array(
        *(
            F.struct(F.lit(time_s).alias("time_s"), F.lit(share).alias("share"))
            for time_s, share in zip(curve.times_s, curve.survival, strict=True)
        )
    )
    reached = F.filter(steps, lambda step: step["time_s"] <= age_s)
    share_at_age = F.coalesce(F.array_min(F.transform(reached, lambda step: step["share"])), F.lit(1.0))
    level = (1 - probability) * share_at_age + 1e-12
    over = F.filter(steps, lambda step: step["share"] <= level)
    over_at_s = F.coalesce(F.array_min(F.transform(over, lambda step: step["time_s"])), F.lit(curve.times_s[-1]))
    return F.greatest(over_at_s - age_s, F.lit(0.0))


def write_forecasts(spark: SparkSession, location: TableLocation, rows: DataFrame) -> int:
    """Replace the rows of `session_predictions` in one commit; create the table if it is missing.

    Returns:
        The number of rows.
    """
    if not location.exists(spark, SESSION_PREDICTIONS):
        create_table(spark, location, SESSION_PREDICTIONS, _NO_CHECKPOINT)
    location.replace_rows(rows, SESSION_PREDICTIONS)
    return location.read(spark.read, SESSION_PREDICTIONS).count()
