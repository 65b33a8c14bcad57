"""The model of session lengths in MLflow: a run per training, and the versions of the registered model.

Each version holds the model and its baseline. The alias `champion` is on the newest version if that beat the baseline,
and on none otherwise: what forecasts today must have been tested on yesterday's sessions.

Imports MLflow: call `ml.require_mlflow` before this module is imported.
"""

import contextlib
import io
import logging
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.models import infer_signature

from sessionization.clock import utc
from sessionization.databricks import on_databricks
from sessionization.errors import ConfigurationError
from sessionization.ml.length_model import PROBABILITIES, LengthModel
from sessionization.ml.mlflow_run import check_writable, experiment_id, store_uri
from sessionization.ml.prediction_settings import PredictSettings
from sessionization.ml.run_names import KIND_TAG, LENGTH_EXPERIMENT, RunKind
from sessionization.ml.session_features import FEATURES
from sessionization.ml.training import Draw, Training

CHAMPION = "champion"
_MODEL_FILE = "length_model.json"
_AGE = "age_s"
_QUANTILES = {f"remaining_p{100 * probability:.0f}_s": probability for probability in PROBABILITIES}
"""The probability of each column that the registered model gives."""
_S_IN_MINUTE = 60


class LengthForecaster(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    """The registered model for other programs: features and `age_s` in, quantiles of the remaining seconds out."""

    def load_context(self, context: Any) -> None:
        self._model = LengthModel.from_json(Path(context.artifacts["length_model"]).read_text(encoding="utf-8"))

    def predict(self, context: Any, model_input: pd.DataFrame, params: Any = None) -> pd.DataFrame:  # noqa: ARG002
        features, age_s = model_input[list(FEATURES)].to_numpy(float), model_input[_AGE].to_numpy(float)
        return pd.DataFrame(
            {name: self._model.remaining_s(features, age_s, probability) for name, probability in _QUANTILES.items()}
        )


def store(training: Training, settings: PredictSettings, tables: str, draw: Draw | None = None) -> str:
    """Store a training as a run, register its model, and set or remove the alias.

    Args:
        training: the model and how it did.
        settings: experiment and name of the model.
        tables: where the sessions are, for the run's tag.
        draw: draws the figure of the run; without it there is none.

    Returns:
        The version of the registered model. Raises `ConfigurationError` where MLflow takes no run or no model.
    """
    with _store_in_use() as client:
        experiment = experiment_id(client, settings.mlflow, LENGTH_EXPERIMENT)
        name = time.strftime("training %Y-%m-%d %H:%M:%S", time.gmtime())
        tags = {KIND_TAG: RunKind.TRAINING.value, "tables": tables}
        with mlflow.start_run(experiment_id=experiment, run_name=name, tags=tags):
            mlflow.log_params(_parameters(training, settings))
            mlflow.log_metrics(_metrics(training))
            for score in training.evaluation.scores:
                if score.age_s is not None:
                    by_age = {f"{score.source}.pinball_p50_min_by_age": score.pinball_min[0.5]}
                    mlflow.log_metrics(by_age, step=score.age_s // _S_IN_MINUTE)
            if draw is not None:
                mlflow.log_figure(draw(training), "model_against_baseline.png")
            version = _register(training.model, settings.registered_name)
        if training.model.beats_baseline:
            client.set_registered_model_alias(settings.registered_name, CHAMPION, version)
        elif CHAMPION in client.get_registered_model(settings.registered_name).aliases:
            client.delete_registered_model_alias(settings.registered_name, CHAMPION)
        return version


def newest(settings: PredictSettings) -> tuple[LengthModel, str]:
    """Read the newest version of the registered model, and its number.

    Raises `ConfigurationError` where there is none, or where the registry cannot be read.
    """
    name = settings.registered_name
    with _store_in_use() as client, tempfile.TemporaryDirectory() as folder:
        versions = [int(found.version) for found in client.search_model_versions(f"name='{name}'")]
        if not versions:
            msg = f"there is no registered model {name} in {store_uri()}: run the job without --score-only first"
            raise ConfigurationError(msg)
        uri = f"models:/{name}/{max(versions)}"
        path = Path(mlflow.artifacts.download_artifacts(artifact_uri=uri, dst_path=folder))
        text = next(path.rglob(_MODEL_FILE)).read_text(encoding="utf-8")
        return LengthModel.from_json(text), str(max(versions))


@contextmanager
def _store_in_use() -> Iterator[MlflowClient]:
    """Use the store of the stream's runs; its failures become a `ConfigurationError` of one line."""
    uri = store_uri()
    try:
        check_writable(uri)
        mlflow.set_tracking_uri(uri)
        mlflow.set_registry_uri("databricks-uc" if on_databricks() else uri)
        yield MlflowClient()
    except (MlflowException, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        msg = f"MLflow does not take or give the model ({reason}): see to its store {uri} (MLFLOW_TRACKING_URI)"
        raise ConfigurationError(msg) from error


def _register(model: LengthModel, name: str) -> str:
    example = pd.DataFrame(np.zeros((1, 1 + len(FEATURES))), columns=[*FEATURES, _AGE])
    quantiles = pd.DataFrame(np.zeros((1, len(_QUANTILES))), columns=list(_QUANTILES))
    with tempfile.TemporaryDirectory() as folder, _without_remarks():
        file = Path(folder) / _MODEL_FILE
        file.write_text(model.to_json(), encoding="utf-8")
        logged = mlflow.pyfunc.log_model(
            name="session_length",
            python_model=LengthForecaster(),
            artifacts={"length_model": str(file)},
            signature=infer_signature(example, quantiles),
            pip_requirements=["mlflow", "numpy", "pandas"],  # and this project's wheel, which is in no index
            registered_model_name=name,
        )
    return str(logged.registered_model_version)


@contextmanager
def _without_remarks() -> Iterator[None]:
    """Silence what MLflow says while it stores a model: remarks on pickles and examples, and that it succeeded."""
    logger = logging.getLogger("mlflow")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)


def _parameters(training: Training, settings: PredictSettings) -> dict[str, str]:
    return {
        "days": str(settings.days),
        "begin": utc(training.begin_ms).isoformat(timespec="seconds"),
        "split": utc(training.split_ms).isoformat(timespec="seconds"),
        "as_of": utc(training.as_of_ms).isoformat(timespec="seconds"),
        "regression": "Weibull accelerated failure time",
        "features": " ".join(FEATURES),
    }


def _metrics(training: Training) -> dict[str, float]:
    evaluation, model = training.evaluation, training.model
    found: dict[str, float] = {
        "trained_sessions": training.trained,
        "trained_ended": training.ended,
        "tested_sessions": training.tested,
        "tested_live": training.tested_live,
        "p50_gain_min": evaluation.gain_min,
        "p50_gain_error_min": evaluation.gain_error_min,
        "beats_baseline": float(evaluation.beats_baseline),
        "model.intercept": model.intercept,
        "model.sigma": model.sigma,
        **{f"model.coefficient.{feature}": value for feature, value in model.coefficients.items()},
    }
    for score in evaluation.scores:
        if score.age_s is None:
            found |= {f"{score.source}.pinball_p{100 * p:.0f}_min": loss for p, loss in score.pinball_min.items()}
            found[f"{score.source}.coverage_80"] = score.coverage
    return found
