"""Runs in MLflow: each start of the stream is one, stored without delaying or stopping the stream.

MLflow takes a second and 100 MB, so it is imported only where something is stored or read.
"""

import importlib.util
import logging
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import pyspark
from pyspark.sql import SparkSession

from sessionization.databricks import on_databricks
from sessionization.say import Say
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.output.progress import BatchProgress
from sessionization.spark.tables.location import TableLocation

EXPERIMENT: Final = "sessionization"
"""The experiment of stream runs without `--mlflow`; in a workspace it is in the folder of the user who runs the job."""
KIND_TAG: Final = "sessionization.kind"
"""The tag that holds a run's `RunKind` as text, independent of the experiment's name."""
MAX_WAITING = 10_000  # micro-batches; then the oldest are dropped
FLUSH_EVERY_S, CLOSE_WITHIN_S = 5.0, 8.0
EVERY_ONE_BELOW, THEN_EVERY = 3_600, 60
"""Of a query, the first `EVERY_ONE_BELOW` micro-batches are stored, then one in `THEN_EVERY`: stores limit metrics."""


class RunKind(StrEnum):
    STREAM = "stream"
    BENCHMARK = "benchmark"
    TRAINING = "training"


def import_mlflow() -> Any:
    """Import MLflow without telemetry, and without log lines about the set-up of its store.

    The store is the workspace, or MLflow's choice: `MLFLOW_TRACKING_URI`, or a SQLite file in the working folder.
    """
    if on_databricks():
        store = os.environ.setdefault("MLFLOW_TRACKING_URI", "databricks")
        if store != "databricks":  # there MLflow looks for models in the workspace, wherever the runs are
            os.environ.setdefault("MLFLOW_REGISTRY_URI", store)
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    import mlflow

    return mlflow


@contextmanager
def track_in_mlflow(
    settings: SessionizeSettings, location: TableLocation, checkpoint_id: str, say: Say
) -> Iterator[Callable[[BatchProgress], None]]:
    """Give a function that takes each micro-batch during the run; `--mlflow` says whether they are stored.

    A thread sends what waits every few seconds; with the first micro-batch it makes the run, so a job that refuses to
    start has none. Its first failure is printed, and ends it.
    """
    experiment = settings.monitoring.mlflow
    if experiment == "off" or importlib.util.find_spec("mlflow") is None:
        if experiment not in ("auto", "off"):
            say(
                f"--mlflow {experiment}: MLflow is not installed, so no run is kept; install the extra mlflow "
                "(docs/notebooks.md)"
            )
        yield lambda _progress: None
        return
    waiting: deque[BatchProgress] = deque(maxlen=MAX_WAITING)
    closing, status, seen = threading.Event(), "FAILED", Counter[str]()

    def store() -> None:
        run, is_closing = None, False
        try:
            while not is_closing:
                is_closing = closing.wait(FLUSH_EVERY_S)
                for progress in [waiting.popleft() for _ in range(len(waiting))]:
                    run = run or StreamRun(settings, {"checkpoint": checkpoint_id, "tables": str(location)})
                    seen[progress.query] += 1
                    if seen[progress.query] <= EVERY_ONE_BELOW or seen[progress.query] % THEN_EVERY == 0:
                        run.log(progress)
            if run is not None:
                run.end(status)
        except Exception as error:  # noqa: BLE001 - no failure may reach the stream
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            say(f"MLflow does not take this run ({reason}): the stream goes on without; --mlflow off silences this")

    thread = threading.Thread(target=store, name="mlflow", daemon=True)
    thread.start()
    try:
        yield waiting.append
        status = "FINISHED"
    finally:
        closing.set()
        thread.join(CLOSE_WITHIN_S)
        if thread.is_alive():
            say("MLflow is behind: the last micro-batches are missing from its run, not from the tables")


class StreamRun:
    """A run in MLflow with its parameters, from the stream's first micro-batch to its end."""

    def __init__(self, settings: SessionizeSettings, tags: dict[str, str]) -> None:
        self._mlflow = import_mlflow()
        self._client = self._mlflow.MlflowClient()
        self._run_id = self._client.create_run(
            experiment_id(self._client, settings.monitoring.mlflow),
            run_name=time.strftime("stream %Y-%m-%d %H:%M:%S", time.gmtime()),
            tags=tags | {KIND_TAG: RunKind.STREAM.value},
        ).info.run_id
        parameters = [self._mlflow.entities.Param(*one) for one in parameters_of(settings).items()]
        self._client.log_batch(self._run_id, params=parameters)

    def log(self, progress: BatchProgress) -> None:
        """Store `QUERY.COLUMN` of `stream_progress`, with the micro-batch's id as the step."""
        metric = self._mlflow.entities.Metric
        metrics = [
            metric(f"{progress.query}.{name}", float(value), progress.processed_ms, progress.batch_id)
            for name, value in progress.row().items()
            if name not in {"query", "batch_id", "processed_ms"} and value is not None
        ]
        self._client.log_batch(self._run_id, metrics)

    def end(self, status: str) -> None:
        self._client.set_terminated(self._run_id, status)


def parameters_of(settings: SessionizeSettings) -> dict[str, str]:
    """The settings that were given or have a default, and the versions; Kafka options by name, without their values."""
    values: dict[str, Any] = {}
    for section, given in settings.model_dump(mode="json", by_alias=True, exclude={"monitoring": {"mlflow"}}).items():
        fields = given if isinstance(given, dict) else {"type": given}
        values |= {section if name == "type" else name: value for name, value in fields.items()}
    values |= {
        "kafka_option": " ".join(sorted(values.get("kafka_option", ()))),
        "spark": pyspark.__version__,
        "runtime": os.environ.get("DATABRICKS_RUNTIME_VERSION"),
    }
    return {name: str(value) for name, value in values.items() if value not in (None, "")}


def experiment_id(client: Any, wanted: str, default: str = EXPERIMENT) -> str:
    """The id of the experiment `wanted`, the value of `--mlflow`, which is created if it is missing.

    With `auto` it is `default`, in a workspace in the folder of the user who runs the job.
    """
    name = default if wanted == "auto" else wanted
    if wanted == "auto" and on_databricks():
        user = SparkSession.builder.getOrCreate().sql("SELECT current_user()").head()[0]  # type: ignore[index]
        name = f"/Users/{user}/{default}"
    if (found := client.get_experiment_by_name(name)) is not None:
        return str(found.experiment_id)
    scheme, _, file = client.tracking_uri.partition(":///")
    beside_it = Path(file).absolute().with_name("mlartifacts").as_uri() if scheme == "sqlite" else None
    return str(client.create_experiment(name, beside_it))  # without, artifacts go to the working folder
