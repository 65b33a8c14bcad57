"""The job predict_remaining on real tables, and its model in a real MLflow store, a SQLite file."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

pytest.importorskip("mlflow", reason="MLflow is not installed: make notebooks installs it")

import mlflow
import numpy as np
import pandas as pd
from mlflow import MlflowClient

from sessionization.errors import ConfigurationError
from sessionization.ml import model_registry
from sessionization.ml.prediction_job import predict_remaining
from sessionization.ml.prediction_settings import PredictSettings
from sessionization.ml.session_features import FEATURES
from sessionization.notebook import length_charts, simulated_week
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_PREDICTIONS, SESSIONS
from tests.tables.warehouse import empty_tables

pytestmark = pytest.mark.job


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    uri = f"sqlite:///{tmp_path / 'store' / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.chdir(tmp_path)
    yield uri
    mlflow.set_tracking_uri(None)
    mlflow.set_registry_uri(None)


def write_week(spark: SparkSession, folder: Path, players: simulated_week.Players) -> PredictSettings:
    location = TableLocation(folder)
    empty_tables(spark, location, owner="nobody")
    location.append(simulated_week.simulate_week(spark, players, live=12, days=6).sessions, SESSIONS)
    return PredictSettings(warehouse=folder)


def test_a_training_is_a_run_with_a_chart_and_a_version_and_live_sessions_get_forecasts(
    spark: SparkSession, tmp_path: Path, store: str
) -> None:
    settings, lines = write_week(spark, tmp_path / "tables", "with habits"), list[str]()
    made = predict_remaining(settings, lines.append, length_charts.model_against_baseline)
    client = MlflowClient(tracking_uri=store)
    assert made.training is not None
    assert made.training.evaluation.beats_baseline, lines
    assert lines[1].startswith("the model beats the baseline: p50 loss ")
    assert lines[2].endswith("have a forecast in session_predictions, by the model of version 1")
    (run,) = client.search_runs([client.get_experiment_by_name("session_length").experiment_id])
    assert run.data.tags["sessionization.kind"] == "training"
    assert run.data.metrics["model.pinball_p50_min"] < run.data.metrics["baseline.pinball_p50_min"]
    assert "model_against_baseline.png" in {file.path for file in client.list_artifacts(run.info.run_id)}
    assert client.get_registered_model("session_length").aliases == {"champion": 1}
    assert {entry.name for entry in tmp_path.iterdir()} == {"tables", "store"}, "nothing in the working folder"

    as_stored = mlflow.pyfunc.load_model("models:/session_length@champion")
    rows = pd.DataFrame(np.zeros((2, len(FEATURES))), columns=list(FEATURES)).assign(age_s=[0.0, 600.0])
    found = as_stored.predict(rows)
    expected = made.model.remaining_s(np.zeros((2, len(FEATURES))), [0, 600], 0.5)
    assert found["remaining_p50_s"].tolist() == pytest.approx(expected.tolist())

    again = predict_remaining(settings.model_copy(update={"score_only": True}), lines.append)
    assert (again.model, again.version, again.training) == (made.model, "1", None)
    location = TableLocation(settings.warehouse)
    assert location.read(spark.read, SESSION_PREDICTIONS).count() > 5

    # A later version that does not beat its baseline takes the alias away.
    worse = replace(made.training, model=replace(made.model, beats_baseline=False))
    assert model_registry.store(worse, settings, "here") == "2"
    assert client.get_registered_model("session_length").aliases == {}
    assert model_registry.newest(settings)[0].source == "baseline"


def test_what_is_missing_is_said_in_one_line(
    spark: SparkSession, tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = PredictSettings(warehouse=tmp_path / "tables")
    with pytest.raises(ConfigurationError, match="does not hold sessions, stream_progress: give the location"):
        predict_remaining(settings, pytest.fail)
    empty_tables(spark, TableLocation(tmp_path / "tables"), owner="nobody")
    with pytest.raises(ConfigurationError, match="holds no session yet: start the sessionize job"):
        predict_remaining(settings, pytest.fail)
    with pytest.raises(ConfigurationError, match=r"there is no registered model session_length in sqlite:.* first"):
        model_registry.newest(settings)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'tables'}")
    with pytest.raises(ConfigurationError, match=r"MLflow does not take or give the model .*see to its store"):
        model_registry.newest(settings)
