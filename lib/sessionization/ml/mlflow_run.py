"""A stream run in MLflow, with its parameters and its metrics per micro-batch; and the store and registry it is in.

Imported only where a run or a model is to be stored: MLflow takes a second and 100 MB.
"""

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlflow
import pyspark
from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException

from sessionization.databricks import on_databricks
from sessionization.errors import ConfigurationError
from sessionization.ml.run_names import AUTO, EXPERIMENT, KIND_TAG, RunKind
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.output.progress import BatchProgress

_MOST_METRICS = 1_000
_SQLITE = "sqlite:///"


def store_uri() -> str:
    """The tracking URI of the runs: `MLFLOW_TRACKING_URI`, or the workspace, or a SQLite file in the working folder."""
    default = "databricks" if on_databricks() else f"{_SQLITE}{Path.cwd() / 'mlflow.db'}"
    return os.environ.get("MLFLOW_TRACKING_URI") or default


def sqlite_file(store: str) -> Path | None:
    """The file of a store that is a SQLite file; None for any other store."""
    return Path(store.removeprefix(_SQLITE)) if store.startswith(_SQLITE) else None


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

    def __init__(self, settings: SessionizeSettings, tags: dict[str, str]) -> None:
        """Create the run, with its parameters."""
        uri = store_uri()
        if (file := sqlite_file(uri)) is not None:  # MLflow would try for two minutes to write a file that it cannot
            file.parent.mkdir(parents=True, exist_ok=True)
            file.open("ab").close()
        self._client = MlflowClient(tracking_uri=uri)
        run = self._client.create_run(
            experiment_id(self._client, settings.monitoring.mlflow),
            run_name=time.strftime("stream %Y-%m-%d %H:%M:%S", time.gmtime()),
            tags=tags | {KIND_TAG: RunKind.STREAM.value},
        )
        self._run_id = run.info.run_id
        self._client.log_batch(self._run_id, params=[Param(*one) for one in parameters_of(settings).items()])

    def log(self, micro_batches: list[BatchProgress]) -> None:
        """Store `QUERY.COLUMN` of `stream_progress`, with the micro-batch's id as the step."""
        metrics = [
            Metric(f"{progress.query}.{name}", float(value), progress.processed_ms, progress.batch_id)
            for progress in micro_batches
            for name, value in progress.row().items()
            if name not in {"query", "batch_id", "processed_ms"} and value is not None
        ]
        for first in range(0, len(metrics), _MOST_METRICS):
            self._client.log_batch(self._run_id, metrics=metrics[first : first + _MOST_METRICS])

    def end(self, status: str) -> None:
        self._client.set_terminated(self._run_id, status)


def parameters_of(settings: SessionizeSettings) -> dict[str, str]:
    """The settings that were given or have a default, and the versions; Kafka options by name, without their values."""
    values: dict[str, Any] = {}
    for section, given in settings.model_dump(mode="json", by_alias=True).items():
        fields = given if isinstance(given, dict) else {"type": given}
        values |= {section if name == "type" else name: value for name, value in fields.items() if name != "mlflow"}
    values |= {
        "kafka_option": " ".join(sorted(values.get("kafka_option", ()))),
        "python": platform.python_version(),
        "spark": pyspark.__version__,
        "runtime": os.environ.get("DATABRICKS_RUNTIME_VERSION"),
        "cores": os.cpu_count(),
    }
    return {name: str(value) for name, value in values.items() if value not in (None, "")}


def experiment_id(client: MlflowClient, wanted: str, default: str = EXPERIMENT) -> str:
    """The id of an experiment, which is created if it is missing.

    `wanted` is the value of `--mlflow`; with `auto` the experiment is `default`, in a workspace in the folder of the
    user who runs the job. Raises `MlflowException` where the store cannot be used.
    """
    name = wanted
    if wanted == AUTO:
        name = f"/Users/{_current_user()}/{default}" if on_databricks() else default
    found = client.get_experiment_by_name(name)
    if found is not None:
        return str(found.experiment_id)
    file = sqlite_file(store_uri())
    beside_it = None if file is None else (file.absolute().parent / "mlartifacts").as_uri()  # not the working folder
    return str(client.create_experiment(name, beside_it))


def _current_user() -> str:
    from pyspark.sql import SparkSession

    return str(SparkSession.builder.getOrCreate().sql("SELECT current_user() AS name").collect()[0].name)
