"""Read stream and benchmark runs back from MLflow, to compare them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sessionization.clock import utc
from sessionization.errors import ConfigurationError
from sessionization.ml import require_mlflow
from sessionization.ml.run_names import KIND_TAG, RunKind

_EXPERIMENTS_AT_ONCE, _MOST_RUNS = 100, 100


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run: its name, its parameters, and the last value of each metric."""

    run_id: str
    store: str
    name: str
    began_at: datetime
    parameters: dict[str, str]
    metrics: dict[str, float]


def newest_runs(kind: RunKind, stores: Sequence[str] = ()) -> list[StoredRun]:
    """The newest runs of a kind that have metrics, newest first, from all experiments of some tracking URIs.

    Without `stores` they are those of the default store of stream runs. A file that is missing has no runs. Raises
    `ConfigurationError` where MLflow is not installed, or a store cannot be read.
    """
    require_mlflow()
    from sessionization.ml.mlflow_run import sqlite_file, store_uri

    found: list[StoredRun] = []
    for store in stores or [store_uri()]:
        file = sqlite_file(store)
        if file is not None and not file.is_file():  # MLflow would create it
            continue
        try:
            found += _runs_of(store, kind)
        except Exception as error:
            reason = str(error).strip().partition("\n")[0]
            msg = f"the MLflow store {store} cannot be read ({reason}): name the tracking URI of one that has runs"
            raise ConfigurationError(msg) from error
    return sorted(found, key=lambda run: run.began_at, reverse=True)


def metric_series(run: StoredRun, metric: str) -> tuple[list[int], list[float]]:
    """One metric of a run over its micro-batches: the processing time in milliseconds and the value of each."""
    history = sorted(_client(run.store).get_metric_history(run.run_id, metric), key=lambda point: point.timestamp)
    return [point.timestamp for point in history], [point.value for point in history]


def _runs_of(store: str, kind: RunKind) -> Iterator[StoredRun]:
    client = _client(store)
    experiments = page = client.search_experiments()
    while page.token:
        page = client.search_experiments(page_token=page.token)
        experiments = [*experiments, *page]
    ids = [experiment.experiment_id for experiment in experiments]
    for first in range(0, len(ids), _EXPERIMENTS_AT_ONCE):
        for run in client.search_runs(
            ids[first : first + _EXPERIMENTS_AT_ONCE],
            filter_string=f"tags.`{KIND_TAG}` = '{kind}'",
            max_results=_MOST_RUNS,
            order_by=["attributes.start_time DESC"],
        ):
            if run.data.metrics:
                name, began_at = run.info.run_name or run.info.run_id[:8], utc(run.info.start_time)
                yield StoredRun(run.info.run_id, store, name, began_at, run.data.params, run.data.metrics)


def _client(store: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=store)
