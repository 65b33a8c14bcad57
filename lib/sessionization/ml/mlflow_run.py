"""A stream run in MLflow: its parameters, its metrics per micro-batch, and the tables as data sets.

Imported on the tracker's thread only, and only where a run is to be stored: MLflow takes a second and 100 MB.
"""

import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from zlib import crc32

import mlflow
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag
from mlflow.exceptions import MlflowException

from sessionization.databricks import on_databricks
from sessionization.errors import ConfigurationError
from sessionization.ml.run_names import AUTO, EXPERIMENT, KIND_TAG, RunKind, RunStatus, sqlite_file
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.output.progress import BatchProgress
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import TABLES, Table

_MOST_METRICS = 1_000
_NOT_METRICS = {"query", "batch_id", "processed_ms"}
_PACKAGES = ("sessionization", "pyspark", "delta-spark", "mlflow", "mlflow-skinny")


def store_uri() -> str:
    """The tracking URI of the runs: `MLFLOW_TRACKING_URI`, or the workspace, or a SQLite file in the working folder.

    The workspace is the default on Databricks, the SQLite file on a laptop.
    """
    given = os.environ.get("MLFLOW_TRACKING_URI")
    if given:
        return given
    return "databricks" if on_databricks() else f"sqlite:///{Path.cwd() / 'mlflow.db'}"


@contextmanager
def model_registry() -> Iterator[MlflowClient]:
    """Use the registry of models, in a workspace that of Unity Catalog; its failures become a `ConfigurationError`."""
    uri = store_uri()
    mlflow.set_tracking_uri(uri)
    mlflow.set_registry_uri("databricks-uc" if uri == "databricks" else uri)
    try:
        yield MlflowClient()
    except (MlflowException, OSError) as error:
        first_line = str(error).partition("\n")[0]
        msg = (
            f"MLflow does not give or take the model ({first_line}): if there is none yet, run without score-only "
            "first; else see to its store, in a catalog to the right CREATE_MODEL"
        )
        raise ConfigurationError(msg) from error


class MlflowRun:
    """One run, from its first micro-batch to its end."""

    def __init__(self, settings: SessionizeSettings, location: TableLocation, checkpoint_id: str) -> None:
        self._settings, self._location, self._checkpoint_id = settings, location, checkpoint_id
        self._client = _client()
        self._run_id = ""

    def begin(self) -> None:
        run = self._client.create_run(
            experiment_id(self._client, self._settings.monitoring.mlflow),
            run_name=time.strftime("stream %Y-%m-%d %H:%M:%S", time.gmtime()),
            tags={KIND_TAG: RunKind.STREAM.value, "checkpoint": self._checkpoint_id, "tables": str(self._location)},
        )
        self._run_id = run.info.run_id
        self._client.log_batch(
            self._run_id, params=[Param(*parameter) for parameter in parameters_of(self._settings).items()]
        )
        datasets = [
            DatasetInput(_dataset(self._location, table), [InputTag("mlflow.data.context", "output")])
            for table in TABLES
        ]
        self._client.log_inputs(self._run_id, datasets=datasets)

    def log(self, micro_batches: list[BatchProgress]) -> None:
        metrics = [metric for progress in micro_batches for metric in metrics_of(progress)]
        for first in range(0, len(metrics), _MOST_METRICS):
            self._client.log_batch(self._run_id, metrics=metrics[first : first + _MOST_METRICS])

    def end(self, status: RunStatus, not_kept: int) -> None:
        if not_kept:
            self._client.log_batch(self._run_id, tags=[RunTag("micro_batches_not_kept", str(not_kept))])
        self._client.set_terminated(self._run_id, status)


def check_writable(store: str) -> None:
    """Raise `OSError` at once for a SQLite file that cannot be written: MLflow would try for two minutes."""
    file = sqlite_file(store)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab"):
            pass


def metrics_of(progress: BatchProgress) -> Iterator[Metric]:
    """The metrics of a micro-batch: `QUERY.COLUMN` of `stream_progress`, with the micro-batch's id as the step."""
    for name, value in progress.row().items():
        if name not in _NOT_METRICS and value is not None:
            yield Metric(f"{progress.query}.{name}", float(value), progress.processed_ms, progress.batch_id)


def open_experiment(name: str) -> None:
    """Create the experiment of `--mlflow` if it is missing; raises `MlflowException` where it cannot be used."""
    experiment_id(_client(), name)


def _client() -> MlflowClient:
    check_writable(store_uri())
    return MlflowClient(tracking_uri=store_uri())


def parameters_of(settings: SessionizeSettings) -> dict[str, str]:
    """The settings that were given or have a default, and the versions; Kafka options by name, without their values."""
    values: dict[str, Any] = {}
    for section, given in settings.model_dump(mode="json", by_alias=True).items():
        fields = given if isinstance(given, dict) else {"type": given}
        values |= {section if name == "type" else name: value for name, value in fields.items() if name != "mlflow"}
    values["kafka_option"] = " ".join(sorted(values.get("kafka_option", ())))
    values["python"] = platform.python_version()
    values["runtime"] = os.environ.get("DATABRICKS_RUNTIME_VERSION")
    values["cores"] = os.cpu_count()
    for package in _PACKAGES:
        try:
            values[f"{package}_version"] = version(package)
        except PackageNotFoundError:
            continue
    return {name: str(value) for name, value in values.items() if value not in (None, "")}


def experiment_id(client: MlflowClient, wanted: str, default: str = EXPERIMENT) -> str:
    """The id of an experiment, which is created if it is missing.

    `wanted` is the value of `--mlflow`; with `auto` the experiment is `default`. Raises `MlflowException` where the
    store cannot be used.
    """
    name = _experiment_name(default) if wanted == AUTO else wanted
    found = client.get_experiment_by_name(name)
    if found is not None:
        return str(found.experiment_id)
    try:
        return str(client.create_experiment(name, _artifacts()))
    except MlflowException:  # another job has just created it
        found = client.get_experiment_by_name(name)
        if found is None:
            raise
        return str(found.experiment_id)


def _artifacts() -> str | None:
    """The folder beside a SQLite file, because MLflow would use the working folder; None for other stores."""
    file = sqlite_file(store_uri())
    return None if file is None else (file.absolute().parent / "mlartifacts").as_uri()


def _experiment_name(name: str) -> str:
    """In a workspace, where names are paths, the experiment is in the folder of the user who runs the job."""
    if not on_databricks():
        return name
    from pyspark.sql import SparkSession

    row = SparkSession.builder.getOrCreate().sql("SELECT current_user()").first()
    assert row is not None
    return f"/Users/{row[0]}/{name}"


def _dataset(location: TableLocation, table: Table) -> Dataset:
    is_folder = location.warehouse is not None
    name = location.sql_name(table.name).replace("`", "")
    source = {"path": name.removeprefix("delta.")} if is_folder else {"delta_table_name": name}
    columns = [{"name": column.name, "type": column.type, "required": not column.nullable} for column in table.columns]
    schema = json.dumps({"mlflow_colspec": columns})
    source_json = json.dumps(source)
    digest = f"{crc32((source_json + schema).encode()):08x}"
    return Dataset(table.name, digest, "delta_table", source_json, schema)
