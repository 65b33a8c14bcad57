"""Read stream and benchmark runs back from MLflow, to compare them."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any

from sessionization.clock import utc
from sessionization.errors import ConfigurationError
from sessionization.ml import require_mlflow
from sessionization.ml.run_names import KIND_TAG, RunKind, sqlite_file

_PAGE = 100
_EXPERIMENTS_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run: its name, its parameters, and the last value of each metric."""

    run_id: str
    store: str
    name: str
    began_at: datetime
    parameters: dict[str, str]
    metrics: dict[str, float]


@dataclass(frozen=True, slots=True)
class Series:
    """A metric of a run over its micro-batches: the processing time and the value of each."""

    at_ms: list[int]
    values: list[float]

    @property
    def median(self) -> float | None:
        return median(self.values) if self.values else None


def newest_runs(kind: RunKind, stores: Sequence[str] = ()) -> Iterator[StoredRun]:
    """The runs of a kind that have metrics, newest first, from all experiments; read as the caller iterates.

    Args:
        kind: the value of `KIND_TAG`.
        stores: tracking URIs; without any, the default store of stream runs.

    Raises `ConfigurationError` where MLflow is not installed, or a store cannot be read.
    """
    require_mlflow()
    per_group = [runs for store in stores or _default_stores() for runs in _runs_of(store, kind)]
    return heapq.merge(*per_group, key=lambda run: run.began_at, reverse=True)


def metric_series(run: StoredRun, metric: str) -> Series:
    """One metric of a run, micro-batch by micro-batch."""
    points = sorted(_client(run.store).get_metric_history(run.run_id, metric), key=lambda point: point.timestamp)
    return Series([point.timestamp for point in points], [point.value for point in points])


def differing_parameters(runs: Iterable[StoredRun]) -> dict[str, list[str]]:
    """The parameters that differ between runs: by name one value per run, empty where a run lacks the parameter."""
    all_runs = list(runs)
    names = sorted({name for run in all_runs for name in run.parameters})
    values = {name: [run.parameters.get(name, "") for run in all_runs] for name in names}
    return {name: per_run for name, per_run in values.items() if len(set(per_run)) > 1}


def _default_stores() -> list[str]:
    """The store of this machine's or workspace's stream runs; an empty list where no run has created it yet."""
    from sessionization.ml.mlflow_run import store_uri

    store = store_uri()
    return [] if _is_missing(store) else [store]


def _runs_of(store: str, kind: RunKind) -> list[Iterator[StoredRun]]:
    """The runs of a kind in a store, one iterator per group of experiments, each newest first."""
    if _is_missing(store):  # MLflow would create it
        msg = f"there is no MLflow store {store}: name the tracking URI of one that has runs"
        raise ConfigurationError(msg)
    try:
        client = _client(store)
        experiments = [
            experiment.experiment_id for experiment in _all(lambda token: client.search_experiments(page_token=token))
        ]
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        msg = f"the MLflow store {store} cannot be read ({reason}): name the tracking URI of one that has runs"
        raise ConfigurationError(msg) from error
    return [
        _runs_in(client, store, kind, experiments[first : first + _EXPERIMENTS_AT_ONCE])
        for first in range(0, len(experiments), _EXPERIMENTS_AT_ONCE)
    ]


def _runs_in(client: Any, store: str, kind: RunKind, experiments: list[str]) -> Iterator[StoredRun]:
    runs = _all(
        lambda token: client.search_runs(
            experiments,
            filter_string=f"tags.`{KIND_TAG}` = '{kind}'",
            max_results=_PAGE,
            order_by=["attributes.start_time DESC"],
            page_token=token,
        )
    )
    for run in runs:
        if run.data.metrics:
            yield StoredRun(
                run.info.run_id,
                store,
                run.info.run_name or run.info.run_id[:8],
                utc(run.info.start_time),
                dict(run.data.params),
                dict(run.data.metrics),
            )


def _all(page_of: Callable[[str | None], Any]) -> Iterator[Any]:
    """The items on all pages of an answer; `page_of` gets a page by its token, each page only when it is needed."""
    token: str | None = None
    while True:
        page = page_of(token)
        yield from page
        token = page.token
        if not token:
            return


def _is_missing(store: str) -> bool:
    file = sqlite_file(store)
    return file is not None and not file.is_file()


def _client(store: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=store)
