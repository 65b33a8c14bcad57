"""A stream's run in a real MLflow store, a SQLite file: its contents, and reading and comparing runs."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlflow", reason="MLflow is not installed: make notebooks installs it")

from sessionization.ml import runs
from sessionization.ml.runs import RunKind, track_in_mlflow
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


def streams(store: str) -> list[runs.StoredRun]:
    return runs.newest_runs(RunKind.STREAM, [store])


def run_of(store: str, at: int = 0) -> Any:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=store)
    return client.get_run(streams(store)[at].run_id)


def test_a_run_has_settings_and_versions(store: str) -> None:
    parameters = run_of(store).data.params
    assert (parameters["heartbeat"], parameters["trigger"]) == ("2s", "1s")
    assert parameters["spark"] == "4.2.0"
    assert run_of(store).data.tags["checkpoint"] == "c0ffee"
    assert run_of(store).info.status == "FINISHED"


def test_a_run_has_the_metrics_of_its_micro_batches(store: str) -> None:
    (newest, _) = streams(store)
    assert runs.metric_series(newest, "sessionize.rows_in") == (
        [1_800_000_000_000, 1_800_000_001_000], [10.0, 11.0],
    )  # fmt: skip
    assert runs.metric_series(newest, "sessionize.lateness_p99_ms")[1] == [20.0]
    assert {"sessionize.batch_ms", "sessionize.state_rows", "sessionize.state_bytes"} <= newest.metrics.keys()
    assert "sessionize.batch_id" not in newest.metrics


def test_runs_are_found_by_their_tag_in_any_experiment(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [run.parameters["heartbeat"] for run in streams(store)] == ["2s", "5s"], "newest first"
    assert runs.newest_runs(RunKind.BENCHMARK, [store]) == []
    monkeypatch.setattr(runs, "_EXPERIMENTS_AT_ONCE", 1)
    assert [run.parameters["heartbeat"] for run in streams(store)] == ["2s", "5s"], "newest first, over several answers"


def test_a_new_store_has_no_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    assert runs.newest_runs(RunKind.STREAM) == []


def test_values_of_kafka_options_are_not_logged(tmp_path: Path) -> None:
    kafka = {"source": "kafka", "bootstrap_servers": "127.0.0.1:9092"}
    places = {"warehouse": tmp_path / "warehouse", "checkpoints": tmp_path / "checkpoints"}
    given = settings_of(SessionizeSettings, kafka | places, kafka_option=("kafka.sasl.jaas.config=env:KAFKA_JAAS",))
    parameters = runs.parameters_of(given)
    assert parameters["kafka_option"] == "kafka.sasl.jaas.config"
    assert not any("KAFKA_JAAS" in text for text in parameters.values())
