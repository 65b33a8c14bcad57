"""How long live sessions will go on: train a model, judge it, register it, and write the table `session_predictions`.

The model is a Weibull regression of accelerated failure times by lifelines. The baseline, which it must beat on the
last day, is the Kaplan-Meier curve of all sessions. A session that has not ended is censored at its age. Ends that were
`timed_out` or `orphaned` are left out: nobody knows when the one ended, or when the other began.
"""

import time
import warnings
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import Field
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf

from sessionization.durations import DAY_MS
from sessionization.errors import ConfigurationError
from sessionization.ml.runs import KIND_TAG, RunKind, experiment_id, import_mlflow
from sessionization.settings.table_location_settings import TableLocationSettings
from sessionization.spark.engine.newest import newest_ms
from sessionization.spark.tables.creation import create_table
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_PREDICTIONS, SESSIONS, STREAM_PROGRESS

REMAINING: Final = {"remaining_p10_ms": 0.1, "remaining_p50_ms": 0.5, "remaining_p90_ms": 0.9}
"""The forecast quantiles of the remaining time: by column the share of sessions that are over by then."""
FEATURES: Final = (
    "is_console", "hour_sin", "hour_cos", "is_weekend", "has_history", "log_earlier_sessions", "mean_log_length",
    "last_log_length",
)  # fmt: skip
"""What a model knows of a session beside its age; `described_sessions` says what they are."""
CHAMPION: Final = "champion"
_LEAST_TRAINED, _LEAST_TESTED = 100, 10
_MOST_SESSIONS, _MOST_TRAINED = 500_000, 100_000  # more cost the driver time and memory, and teach nothing new
_PENALIZER = 1e-3  # small: it keeps the coefficient of a constant feature finite, as the weekend's is within one day
_LONGEST_S = 365 * DAY_MS / 1_000


class ForecastSettings(TableLocationSettings):
    """Forecast how long each live session will go on, and how sure that is."""

    days: int = Field(28, ge=1, le=400, description="learn from the sessions that started in this many days")
    score_only: bool = Field(default=False, description="forecast with the registered model, and train no other one")

    @property
    def registered_model(self) -> str:
        """The name of the model in the registry: in Unity Catalog it is in the schema of the tables."""
        location, name = TableLocation.of(self.tables), "session_length"
        return name if location.warehouse is not None else f"{location}.{name}"


@dataclass(frozen=True, slots=True)
class LengthModel:
    """A regression of session lengths, its baseline, and how both did on sessions that started after all they knew.

    Attributes:
        regression: of lifelines, fitted.
        curve: by length in seconds the share of all sessions that last longer.
        scores: by `source` and `age_min` at the forecast (`all`: all ages together) the number of `sessions` that
            ended, `p50_error_min` (mean absolute error of the p50), and `over_by_p10`, `over_by_p50`, `over_by_p90`:
            the share that was over by then; 0.1, 0.5 and 0.9 are right.
        metrics: for MLflow, by name: the scores of all ages, the gain with its standard error, concordance, counts.
    """

    regression: Any
    curve: "pd.Series[float]"
    scores: pd.DataFrame = field(default_factory=pd.DataFrame)
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """Which of the two forecasts: `model` if its error is smaller by more than chance explains, or `baseline`."""
        return "model" if self.metrics["p50_gain_min"] > 2 * self.metrics["p50_gain_error_min"] else "baseline"

    def remaining_s(self, sessions: pd.DataFrame, share: float, source: str = "") -> npt.NDArray[np.float64]:
        """In how many seconds `share` of such sessions are over, for rows with `FEATURES` and `age_s`; shape (n,)."""
        age_s = sessions["age_s"].to_numpy(float)
        if (source or self.source) == "model":
            features = sessions[list(FEATURES)]
            found = self.regression.predict_percentile(features, p=1 - share, conditional_after=age_s).to_numpy()
        else:
            times_s, longer = self.curve.index.to_numpy(float), self.curve.to_numpy()
            at_age = longer[np.searchsorted(times_s, age_s, "right") - 1]
            # The margin keeps a share that only rounding raises above the level.
            place = np.searchsorted(-longer, -(1 - share) * at_age - 1e-12)
            found = times_s[np.minimum(place, len(times_s) - 1)] - age_s
        return np.asarray(np.clip(found, 0, _LONGEST_S))

    def predict(self, sessions: pd.DataFrame) -> pd.DataFrame:
        """The columns `REMAINING`, whole milliseconds, for rows with `FEATURES` and `age_s`."""
        found = {name: np.rint(1_000 * self.remaining_s(sessions, share)) for name, share in REMAINING.items()}
        return pd.DataFrame(found, index=sessions.index).astype("int64")


def past_and_live(spark: SparkSession, settings: ForecastSettings) -> tuple[DataFrame, int]:
    """The sessions of the last days, described, and the instant (UTC milliseconds) of the stream's newest micro-batch.

    Raises `ConfigurationError` without tables or sessions.
    """
    location = TableLocation.of(settings.tables)
    location.require(spark, (SESSIONS, STREAM_PROGRESS))
    sessions, progress = (location.read(spark.read, table) for table in (SESSIONS, STREAM_PROGRESS))
    as_of_ms = newest_ms(progress, "processed_at") or newest_ms(sessions, "updated_at")  # tables without a stream
    if as_of_ms is None:
        msg = f"{location} holds no session yet: start the sessionize job, and players (the job simulate)"
        raise ConfigurationError(msg)
    return described_sessions(sessions, as_of_ms - settings.days * DAY_MS, as_of_ms), as_of_ms


def described_sessions(sessions: DataFrame, since_ms: int, as_of_ms: int) -> DataFrame:
    """The rows of `sessions` that started in a span (UTC milliseconds), as they were known at its end, and in addition:

    - `started_ms`, `ended_ms` (null unless ended), `has_ended`, `length_s` (whole seconds, at least 1; of a session
      that has not ended its age), and `player`, a hash of the account, or of the device where there is none;
    - `is_console`; of the start in UTC `is_weekend`, and its hour on a circle as `hour_sin`, `hour_cos`;
    - `has_history`: 1 if an earlier session is known, else 0, as are then `log_earlier_sessions` (the logarithm of 1
      plus their number), `mean_log_length` and `last_log_length` (of their lengths in seconds).

    No feature knows the future: an earlier session is one that **ended before this one started**, within the span.
    """
    begin, end = (F.timestamp_millis(F.lit(instant_ms)) for instant_ms in (since_ms, as_of_ms))
    is_known = F.col("end_reason").isNull() | F.col("end_reason").isin("reported", "superseded", "inactive")
    observed = (
        sessions.where((F.col("started_at") >= begin) & (F.col("started_at") < end) & is_known)
        .withColumn("player", F.xxhash64(F.col("account_id").isNull(), F.coalesce("account_id", "device_id")))
        .withColumn("has_ended", F.coalesce(F.col("ended_at") <= end, F.lit(False)))
        .withColumn("started_ms", F.unix_millis("started_at"))
        .withColumn("ended_ms", F.when(F.col("has_ended"), F.unix_millis("ended_at")))
        .withColumn("length_s", F.ceil((F.coalesce("ended_ms", F.lit(as_of_ms)) - F.col("started_ms")) / 1_000))
        .withColumn("length_s", F.greatest("length_s", F.lit(1)).cast("double"))
    )
    # A row for each start and one for each end: so the window of a start has the ends before it. It is by value of
    # at_ms, not by row, because what ended at the very instant of the start is not earlier.
    at_starts = observed.withColumns({"at_ms": F.col("started_ms"), "log_length": F.lit(None).cast("double")})
    at_ends = observed.where("has_ended").withColumns({"at_ms": F.col("ended_ms"), "log_length": F.log("length_s")})
    earlier = Window.partitionBy("player").orderBy("at_ms").rangeBetween(Window.unboundedPreceding, -1)
    number = F.count("log_length").over(earlier)
    last = F.max(F.when(F.col("log_length").isNotNull(), F.struct("at_ms", "log_length"))).over(earlier)
    turn = 2 * F.pi() * (F.col("started_ms") % DAY_MS) / DAY_MS
    weekday = (F.floor(F.col("started_ms") / DAY_MS) + 3) % 7  # 1970 began on a Thursday; Monday is 0
    features = {
        "is_console": (F.col("platform") == "console").cast("double"),
        "hour_sin": F.sin(turn),
        "hour_cos": F.cos(turn),
        "is_weekend": (weekday >= F.lit(5)).cast("double"),
        "has_history": F.least(number, F.lit(1)).cast("double"),
        "log_earlier_sessions": F.log1p(number),
        "mean_log_length": F.coalesce(F.avg("log_length").over(earlier), F.lit(0.0)),
        "last_log_length": F.coalesce(last["log_length"], F.lit(0.0)),
    }
    return at_starts.unionByName(at_ends).withColumns(features).where("log_length IS NULL")


def train(described: DataFrame) -> LengthModel:
    """Train on `described_sessions`, and test on those that started last: a day, or the last quarter that has ended.

    Of very many sessions it takes those of some players. Raises `ConfigurationError` where too few have ended.
    """
    from lifelines import KaplanMeierFitter, WeibullAFTFitter

    # By the starts of those that ended: the stream may go on without players, and most new sessions may be live.
    three_quarters = F.percentile_approx(F.when(F.col("has_ended"), F.col("started_ms")), 0.75, 10_000)
    count, newest_ms, quarter_ms = described.agg(F.count("*"), F.max("started_ms"), three_quarters).collect()[0]
    split_ms = max(newest_ms - DAY_MS, quarter_ms or 0) if count else 0
    some = described.where(F.pmod("player", F.lit(1_000_000)) * count < 1_000_000 * _MOST_SESSIONS)
    columns = ("player", "started_ms", "ended_ms", "has_ended", "length_s", *FEATURES)
    rows = some.select(*columns).orderBy("started_ms", "player", "length_s").toArrow().to_pandas()
    later, known = rows[rows["started_ms"] >= split_ms], rows[rows["started_ms"] < split_ms].copy()
    known["has_ended"] &= known["ended_ms"] <= split_ms  # as they were known then
    known["length_s"] = np.minimum(known["length_s"], np.ceil((split_ms - known["started_ms"]) / 1_000))
    ended, tested = int(known["has_ended"].sum()), int(later["has_ended"].sum())
    if ended < _LEAST_TRAINED or tested < _LEAST_TESTED:
        msg = (
            f"too few sessions have ended to learn from: {ended:,} before those tested, {tested:,} of these, "
            f"at least {_LEAST_TRAINED} and {_LEAST_TESTED} are needed: give more days, or let the stream run longer"
        )
        raise ConfigurationError(msg)
    known = known.sample(min(len(known), _MOST_TRAINED), random_state=0)[[*FEATURES, "length_s", "has_ended"]]
    with warnings.catch_warnings(action="ignore"):  # of features that hardly vary
        regression = WeibullAFTFitter(penalizer=_PENALIZER).fit(known.astype(float), "length_s", "has_ended")
    curve = KaplanMeierFitter().fit(known["length_s"], known["has_ended"]).survival_function_["KM_estimate"]
    counts = {"trained_sessions": len(known), "trained_ended": int(known["has_ended"].sum()), "tested_sessions": tested}
    scores, metrics = evaluate(LengthModel(regression, curve), later)
    return LengthModel(regression, curve, scores, metrics | counts)


def evaluate(model: LengthModel, sessions: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, float]]:
    """The scores and metrics of a `LengthModel`, for forecasts at the start and as each quarter of sessions is over.

    Sessions that ended also stand for those that had not, which are the longer ones (Graf et al. 1999).
    """
    from lifelines import KaplanMeierFitter
    from lifelines.utils import concordance_index

    observed = KaplanMeierFitter().fit(sessions["length_s"], ~sessions["has_ended"])
    # At least 0.05, so that no session counts more than twenty times.
    weight = 1 / observed.predict(sessions["length_s"] - 1).clip(0.05).to_numpy()
    sessions = sessions.assign(age_s=0.0, weight=weight)
    quarters = (model.remaining_s(sessions.head(1), share, "baseline")[0] for share in (0.25, 0.5, 0.75))
    ended = sessions[sessions["has_ended"]]
    ages = (ended[ended["length_s"] > age_s].assign(age_s=age_s) for age_s in sorted({0.0, *quarters}))
    cases = pd.concat(ages, ignore_index=True)
    remaining_s, weight, rows, error_min = cases["length_s"] - cases["age_s"], cases["weight"], [], {}
    for source in ("model", "baseline"):
        error_min[source] = (remaining_s - model.remaining_s(cases, 0.5, source)).abs() / 60
        measures = {"p50_error_min": error_min[source]}
        for share in REMAINING.values():
            measures[f"over_by_p{100 * share:.0f}"] = remaining_s <= model.remaining_s(cases, share, source)
        for age_min, group in [("all", cases), *cases.groupby((cases["age_s"] / 60).map("{:.1f}".format), sort=False)]:
            means = {name: np.average(all_[group.index], weights=group["weight"]) for name, all_ in measures.items()}
            rows.append({"source": source, "age_min": age_min, "sessions": len(group), **means})
    gain = error_min["baseline"] - error_min["model"]
    mean_gain = float(np.average(gain, weights=weight))
    # Sessions of one player are not independent: what counts is how far players differ.
    by_player = (weight * (gain - mean_gain)).groupby(cases["player"]).sum()
    at_start_s = model.remaining_s(sessions, 0.5, "model")
    metrics = {f"{row['source']}.{name}": row[name] for row in rows if row["age_min"] == "all" for name in measures}
    return pd.DataFrame(rows), metrics | {
        "p50_gain_min": mean_gain,
        "p50_gain_error_min": float(np.sqrt((by_player**2).sum()) / weight.sum()),
        "model.concordance": concordance_index(sessions["length_s"], at_start_s, sessions["has_ended"]),
    }


def forecasts(described: DataFrame, as_of_ms: int, model: LengthModel, version: str) -> DataFrame:
    """The columns of `session_predictions`, a row per live session; Spark's workers forecast them in Arrow batches."""
    columns = ", ".join(f"{name} long" for name in REMAINING)
    remaining: Any = pandas_udf(model.predict, columns)  # type: ignore[call-overload] # the stubs want the old type
    live = described.where("NOT has_ended").withColumn("age_ms", F.lit(as_of_ms) - F.col("started_ms"))
    found = live.withColumn("remaining", remaining(F.struct((F.col("age_ms") / 1_000).alias("age_s"), *FEATURES)))
    return found.select("*", "remaining.*").select(
        "device_id", "session_id", "account_id", "platform", "started_at",
        F.timestamp_millis(F.lit(as_of_ms)).alias("as_of"), "age_ms", *REMAINING,
        F.lit(model.source).alias("source"), F.lit(version).alias("model_version"),
    )  # fmt: skip


def write(rows: DataFrame, settings: ForecastSettings) -> None:
    """Replace the rows of `session_predictions` in one commit; create the table if it is missing."""
    spark, location = rows.sparkSession, TableLocation.of(settings.tables)
    if not location.exists(spark, SESSION_PREDICTIONS):
        session_id_type = rows.schema["session_id"].dataType.simpleString()
        create_table(spark, location, SESSION_PREDICTIONS, "no checkpoint", session_id_type)
    location.replace_rows(rows, SESSION_PREDICTIONS)


def register(model: LengthModel, settings: ForecastSettings) -> None:
    """Store a training as a run in MLflow, and register its model with the alias `champion`.

    It forecasts also where the baseline was better: what forecasts today must have been tested on yesterday's sessions.
    """
    mlflow = import_mlflow()

    class LengthForecaster(mlflow.pyfunc.PythonModel):  # type: ignore[name-defined, misc]
        """For other programs: rows with `FEATURES` and `age_s` in, the columns `REMAINING` out."""

        def __init__(self, model: LengthModel) -> None:
            self.model = model

        def predict(self, context: Any, model_input: pd.DataFrame, params: Any = None) -> pd.DataFrame:  # noqa: ARG002
            return self.model.predict(model_input)

    name, example = settings.registered_model, pd.DataFrame([dict.fromkeys((*FEATURES, "age_s"), 0.0)])
    client = mlflow.MlflowClient()
    with mlflow.start_run(
        experiment_id=experiment_id(client, "auto", "session_length"),
        run_name=time.strftime("training %Y-%m-%d %H:%M:%S", time.gmtime()),
        tags={KIND_TAG: RunKind.TRAINING.value, "tables": str(TableLocation.of(settings.tables))},
    ):
        mlflow.log_params({"days": settings.days, "features": " ".join(FEATURES)})
        mlflow.log_metrics(model.metrics)
        mlflow.log_table(model.scores, "scores.json")
        logged = mlflow.pyfunc.log_model(
            name="session_length",
            python_model=LengthForecaster(model),
            signature=mlflow.models.infer_signature(example, model.predict(example)),
            pip_requirements=["mlflow", "lifelines"],  # and this project's wheel, which is in no index
            registered_model_name=name,
        )
    client.set_registered_model_alias(name, CHAMPION, logged.registered_model_version)


def champion(settings: ForecastSettings) -> tuple[LengthModel, str]:
    """The registered model that forecasts, and its version."""
    mlflow, name = import_mlflow(), settings.registered_model
    version = mlflow.MlflowClient().get_model_version_by_alias(name, CHAMPION).version
    return mlflow.pyfunc.load_model(f"models:/{name}/{version}").unwrap_python_model().model, str(version)
