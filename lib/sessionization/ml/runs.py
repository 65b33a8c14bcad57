"""Stream and benchmark runs in MLflow, read back to be compared."""

import importlib.util
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any

from sessionization.errors import ConfigurationError
from sessionization.ml import before_mlflow

BENCHMARKS = "sessionization-bench"
STREAMS = "sessionization"
_MOST_RUNS = 50


@dataclass(frozen=True, slots=True)
class RunOfStream:
    """A run: what it is called, its parameters, and each metric's last value."""

    run_id: str
    store: str
    kind: str
    name: str
    began_at: datetime
    parameters: dict[str, str]
    metrics: dict[str, float]


@dataclass(frozen=True, slots=True)
class Series:
    """A metric of a run over its micro-batches: seconds since the run's first, and the value."""

    seconds: list[float]
    values: list[float]

    @property
    def median(self) -> float | None:
        return median(self.values) if self.values else None


def find_runs(stores: Sequence[str] = (), most: int = _MOST_RUNS) -> list[RunOfStream]:
    """The newest runs of the stream and of the benchmarks, newest first.

    Args:
        stores: tracking URIs; without any, the one that stream runs are kept in.
        most: how many of each kind and store.

    Raises `ConfigurationError` where MLflow is not installed.
    """
    found = [run for store in stores or (_default_store(),) for run in _runs_of(store, most)]
    return sorted(found, key=lambda run: run.began_at, reverse=True)


def series(run: RunOfStream, metric: str) -> Series:
    """One metric of a run, micro-batch by micro-batch."""
    points = sorted(_client(run.store).get_metric_history(run.run_id, metric), key=lambda point: point.timestamp)
    first_ms = points[0].timestamp if points else 0
    return Series([(point.timestamp - first_ms) / 1_000 for point in points], [point.value for point in points])


def differing(runs: Iterable[RunOfStream]) -> dict[str, list[str]]:
    """The parameters that runs differ in: by name a value for each run, empty where it has none."""
    listed = list(runs)
    names = sorted({name for run in listed for name in run.parameters})
    values = {name: [run.parameters.get(name, "") for run in listed] for name in names}
    return {name: of_runs for name, of_runs in values.items() if len(set(of_runs)) > 1}


def _default_store() -> str:
    _need_mlflow()
    from sessionization.ml.store import store_uri

    return store_uri()


def _runs_of(store: str, most: int) -> Iterable[RunOfStream]:
    client = _client(store)
    names = {BENCHMARKS: "benchmark", STREAMS: "stream"}
    for experiment in client.search_experiments():
        # In a workspace a name is a path.
        kind = names.get(experiment.name.rpartition("/")[2])
        if kind is None:
            continue
        for run in client.search_runs(
            [experiment.experiment_id], max_results=most, order_by=["attributes.start_time DESC"]
        ):
            if run.data.metrics:
                yield RunOfStream(
                    run.info.run_id,
                    store,
                    kind,
                    run.info.run_name or run.info.run_id[:8],
                    datetime.fromtimestamp(run.info.start_time / 1_000, UTC),
                    dict(run.data.params),
                    dict(run.data.metrics),
                )


def _client(store: str) -> Any:
    _need_mlflow()
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=store)


def _need_mlflow() -> None:
    if importlib.util.find_spec("mlflow") is None:
        msg = "MLflow is not installed: install sessionization[mlflow], or on a laptop run make notebooks"
        raise ConfigurationError(msg)
    before_mlflow()
