"""The whole of `jobs/predict_remaining.py`: tables -> model in MLflow -> forecasts of the live sessions."""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from sessionization.durations import DAY_MS
from sessionization.errors import ConfigurationError
from sessionization.ml import require_mlflow, scoring, training
from sessionization.ml.length_model import LengthModel
from sessionization.ml.prediction_settings import PredictSettings
from sessionization.ml.training import Training
from sessionization.say import Say
from sessionization.spark.engine.generated_code import GENERATED_CODE_CONF
from sessionization.spark.engine.job_conf import TIME_ZONE_CONF
from sessionization.spark.engine.session import job_session, session_for_uris
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSIONS, STREAM_PROGRESS


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a run of the job did: the model that forecast, its version, and its training unless it was only read."""

    model: LengthModel
    version: str
    training: Training | None


def predict_remaining(settings: PredictSettings, say: Say, draw: training.Draw | None = None) -> Prediction:
    """Train and register a model, unless the settings say otherwise, and forecast all live sessions with it.

    A model that does not beat its baseline is no failure: the baseline forecasts, and a line says so.

    Args:
        settings: the job's options.
        say: takes the verdict and what was written, one line each.
        draw: draws the figure that the run in MLflow gets.

    Raises `ConfigurationError` without tables, sessions or MLflow, and as `training.train` and `model_registry` do.
    """
    require_mlflow()
    with (
        session_for_uris(settings, say, GENERATED_CODE_CONF),
        job_session(conf=GENERATED_CODE_CONF, depends_on=TIME_ZONE_CONF) as spark,
    ):
        location = TableLocation.of(settings)
        location.require(spark, (SESSIONS, STREAM_PROGRESS))
        as_of_ms = training.newest_instant_ms(spark, location)
        if as_of_ms is None:
            msg = f"{location} holds no session yet: start the sessionize job, and players (the job simulate)"
            raise ConfigurationError(msg)
        sessions = location.read(spark.read, SESSIONS)
        since_ms = as_of_ms - settings.days * DAY_MS
        if settings.score_only:
            prediction = _read(settings)
        else:
            prediction = train_and_store(sessions, (since_ms, as_of_ms), settings, say, draw)
        rows = scoring.forecasts(sessions, prediction.model, prediction.version, since_ms, as_of_ms)
        _write(spark, location, rows, prediction, say)
        return prediction


def train_and_store(
    sessions: DataFrame,
    span_ms: tuple[int, int],
    settings: PredictSettings,
    say: Say,
    draw: training.Draw | None = None,
) -> Prediction:
    """Train on the sessions that started in a span (UTC milliseconds), say how that went, and register the model.

    Raises `ConfigurationError` as `training.train` and `model_registry.store` do.
    """
    require_mlflow()
    from sessionization.ml import model_registry  # imports MLflow

    trained = training.train(sessions, *span_ms)
    say(
        f"trained on {trained.trained:,} sessions, tested on {trained.tested:,} that started later and ended "
        f"({trained.tested_live:,} are live)"
    )
    say(trained.evaluation.verdict())
    tables = settings.registered_name if settings.warehouse is None else str(settings.warehouse)
    version = model_registry.store(trained, settings, tables, draw)
    return Prediction(trained.model, version, trained)


def _read(settings: PredictSettings) -> Prediction:
    from sessionization.ml import model_registry  # imports MLflow

    model, version = model_registry.newest(settings)
    return Prediction(model, version, None)


def _write(spark: SparkSession, location: TableLocation, rows: DataFrame, prediction: Prediction, say: Say) -> None:
    count = scoring.write_forecasts(spark, location, rows)
    say(
        f"{count:,} live sessions have a forecast in session_predictions, "
        f"by the {prediction.model.source} of version {prediction.version}"
    )
