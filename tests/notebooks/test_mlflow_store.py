"""A stream run in a real MLflow store, a SQLite file: what it says, and that it can be read back and compared."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlflow", reason="MLflow is not installed: make notebooks installs it")

from sessionization.errors import ConfigurationError
from sessionization.ml import runs
from sessionization.ml.tracking import tracked
from sessionization.settings import SessionizeSettings
from sessionization.spark.progress import Percentiles, Progress
from sessionization.spark.table_home import TableHome
from sessionization.spark.tables import TABLES

NONE = Percentiles(None, None, None)


def settings(folder: Path, **changed: Any) -> SessionizeSettings:
    where = {"warehouse": folder / "tables", "checkpoints": folder / "checkpoints"}
    return SessionizeSettings.model_validate({"input": folder / "input", **where, **changed})


def progress(batch_id: int, lateness: Percentiles = NONE) -> Progress:
    return Progress(
        "sessionize", batch_id, 1_800_000_000_000 + 1_000 * batch_id, 10 + batch_id, 70, NONE, lateness, heartbeats=3, state_rows=5, state_bytes=4_096
    )  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with two runs that differ in their heartbeat."""
    folder = tmp_path_factory.mktemp("store")
    said: list[str] = []
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", uri)
        patch.setattr("sessionization.ml.tracking.CLOSE_WITHIN_S", 120)
        for heartbeat in ("5s", "2s"):
            with tracked(
                settings(folder, heartbeat=heartbeat), TableHome(folder / "tables"), "c0ffee", said.append
            ) as add:
                add(progress(0))
                add(progress(1, Percentiles(8, 20, 21)))
    assert said == []
    return uri


def run_of(store: str, at: int = 0) -> Any:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=store)
    return client.get_run(runs.find_runs([store])[at].run_id)


def test_a_run_has_settings_and_versions(store: str) -> None:
    parameters = run_of(store).data.params
    assert (parameters["heartbeat"], parameters["trigger"]) == ("2s", "1s")
    assert parameters["pyspark_version"] == "4.2.0"
    assert "mlflow_version" in parameters
    assert run_of(store).data.tags["checkpoint"] == "c0ffee"
    assert run_of(store).info.status == "FINISHED"


def test_metrics_are_those_of_the_micro_batches(store: str) -> None:
    (newest, _) = runs.find_runs([store])
    assert runs.series(newest, "sessionize.rows_in") == runs.Series([0.0, 1.0], [10.0, 11.0])
    assert runs.series(newest, "sessionize.lateness_p99_ms").values == [20.0]
    assert {"sessionize.batch_ms", "sessionize.state_rows", "sessionize.state_bytes"} <= newest.metrics.keys()
    assert "sessionize.batch_id" not in newest.metrics


def test_the_tables_are_its_data_sets(store: str) -> None:
    datasets = {one.dataset.name: one.dataset for one in run_of(store).inputs.dataset_inputs}
    assert datasets.keys() == {table.name for table in TABLES}
    assert "/tables/sessions" in datasets["sessions"].source
    assert "end_reason" in datasets["sessions"].schema


def test_runs_are_told_apart_by_what_they_differ_in(store: str) -> None:
    assert runs.differing(runs.find_runs([store])) == {"heartbeat": ["2s", "5s"]}


def test_the_picture_of_runs_shows_a_line_for_each(store: str) -> None:
    from sessionization.notebook import run_pictures

    streams = run_pictures.newest_streams(run_pictures.RunsSettings(stores=(store,)))
    assert [run.parameters["heartbeat"] for run in streams] == ["5s", "2s"], "the oldest first"
    figure = run_pictures.compare_streams(streams)
    assert [len(axes.lines) for axes in figure.axes] == [2, 2, 0, 2]
    assert ["heartbeat 5s" in text.get_text() for text in figure.legends[0].get_texts()] == [True, False]


def test_secrets_of_kafka_options_stay_out(tmp_path: Path) -> None:
    from sessionization.ml.store import parameters_of

    kafka = {"source": "kafka", "bootstrap_servers": "127.0.0.1:9092", "input": None}
    given = settings(tmp_path, **kafka, kafka_option=("kafka.sasl.jaas.config=env:KAFKA_JAAS",))
    parameters = parameters_of(given)
    assert parameters["kafka_option"] == "kafka.sasl.jaas.config"
    assert not any("KAFKA_JAAS" in text for text in parameters.values())


def test_the_store_is_imported_only_where_a_run_is_kept() -> None:
    code = "import sys, sessionization.spark.run, sessionization.notebook.job; sys.exit('mlflow' in sys.modules)"
    path = str(Path(__file__).parents[2] / "lib")
    assert subprocess.run([sys.executable, "-c", code], check=False, env={"PYTHONPATH": path}).returncode == 0


def test_reading_runs_without_mlflow_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ConfigurationError, match="MLflow is not installed"):
        runs.find_runs()
