"""A stream's run in a real MLflow store, a SQLite file."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlflow", reason="MLflow is not installed: make notebooks installs it")

from sessionization.ml import runs
from sessionization.ml.runs import KIND_TAG, track_in_mlflow
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.output.progress import BatchProgress, Percentiles
from sessionization.spark.tables.location import TableLocation
from tests.support.settings import settings_of

pytestmark = pytest.mark.job

NONE = Percentiles(None, None, None)


def settings(folder: Path, **changed: Any) -> SessionizeSettings:
    where = {"warehouse": folder / "tables", "checkpoints": folder / "checkpoints"}
    return settings_of(SessionizeSettings, {"input": folder / "input", **where, **changed})


def progress(batch_id: int, lateness: Percentiles = NONE) -> BatchProgress:
    return BatchProgress(
        "sessionize", batch_id, 1_800_000_000_000 + 1_000 * batch_id, 10 + batch_id, 70, NONE, lateness,
        heartbeats=3, state_rows=5, state_bytes=4_096,
    )  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with a foreign run and two runs of the stream, which differ in heartbeat and experiment."""
    folder = tmp_path_factory.mktemp("store")
    messages: list[str] = []
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", uri)
        patch.setattr("sessionization.ml.runs.CLOSE_WITHIN_S", 120)
        for changed in ({"heartbeat": "5s", "mlflow": "/Users/x/other"}, {"heartbeat": "2s"}):
            with track_in_mlflow(
                settings(folder, **changed), TableLocation(folder / "tables"), "c0ffee", messages.append
            ) as add:
                add(progress(0))
                add(progress(1, Percentiles(8, 20, 21)))
    assert messages == []
    _log_foreign_run(uri)
    return uri


def _log_foreign_run(uri: str) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("sessionization")
    client.log_metric(client.create_run(experiment.experiment_id).info.run_id, "sessionize.batch_ms", 1.0)


def streams(store: str) -> list[Any]:
    """The runs with the stream's tag in all experiments, newest first."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=store)
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    tag = f"tags.`{KIND_TAG}` = 'stream'"
    return list(client.search_runs(experiments, tag, order_by=["attributes.start_time DESC"]))


def test_a_run_has_settings_and_versions(store: str) -> None:
    newest, older = streams(store)
    assert (newest.data.params["heartbeat"], older.data.params["heartbeat"]) == ("2s", "5s")
    assert (newest.data.params["trigger"], newest.data.params["spark"]) == ("1s", "4.2.0")
    assert newest.data.tags["checkpoint"] == "c0ffee"
    assert newest.info.status == "FINISHED"


def test_a_run_has_the_metrics_of_its_micro_batches(store: str) -> None:
    from mlflow import MlflowClient

    newest = streams(store)[0]
    rows_in = MlflowClient(tracking_uri=store).get_metric_history(newest.info.run_id, "sessionize.rows_in")
    assert [(point.step, point.timestamp, point.value) for point in rows_in] == [
        (0, 1_800_000_000_000, 10.0),
        (1, 1_800_000_001_000, 11.0),
    ]
    metrics = newest.data.metrics
    assert metrics["sessionize.lateness_p99_ms"] == 20.0
    assert {"sessionize.batch_ms", "sessionize.state_rows", "sessionize.state_bytes"} <= metrics.keys()
    assert "sessionize.batch_id" not in metrics


def test_values_of_kafka_options_are_not_logged(tmp_path: Path) -> None:
    kafka = {"source": "kafka", "bootstrap_servers": "127.0.0.1:9092"}
    places = {"warehouse": tmp_path / "warehouse", "checkpoints": tmp_path / "checkpoints"}
    given = settings_of(SessionizeSettings, kafka | places, kafka_option=("kafka.sasl.jaas.config=env:KAFKA_JAAS",))
    parameters = runs.parameters_of(given)
    assert parameters["kafka_option"] == "kafka.sasl.jaas.config"
    assert not any("KAFKA_JAAS" in text for text in parameters.values())
