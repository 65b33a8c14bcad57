"""Stream and benchmark runs in MLflow, read back to be compared."""

import heapq
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any

from sessionization.clock import utc
from sessionization.errors import ConfigurationError
from sessionization.ml import configure_mlflow_import
from sessionization.ml.run_names import KIND_TAG, RunKind, sqlite_file
from sessionization.optional_packages import how_to_install

_PAGE = 100
_EXPERIMENTS_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run: what it is called, its parameters, and each metric's last value."""

    run_id: str
    store: str
    name: str
    began_at: datetime
    parameters: dict[str, str]
    metrics: dict[str, float]


@dataclass(frozen=True, slots=True)
class Series:
    """A metric of a run over its micro-batches: when each was processed, and the value."""

    at_ms: list[int]
    values: list[float]

    @property
    def median(self) -> float | None:
        return median(self.values) if self.values else None


def newest_runs(kind: RunKind, stores: Sequence[str] = ()) -> Iterator[StoredRun]:
    """The runs of a kind that have metrics, newest first, in whatever experiment; read as far as they are asked for.

    Args:
        kind: what `KIND_TAG` says of a run.
        stores: tracking URIs; without any, the one that stream runs are kept in.

    Raises `ConfigurationError` where MLflow is not installed, or a store cannot be read.
    """
    _need_mlflow()
    found = [runs for store in stores or _default_stores() for runs in _runs_of(store, kind)]
    return heapq.merge(*found, key=lambda run: run.began_at, reverse=True)


def metric_series(run: StoredRun, metric: str) -> Series:
    """One metric of a run, micro-batch by micro-batch."""
    points = sorted(_client(run.store).get_metric_history(run.run_id, metric), key=lambda point: point.timestamp)
    return Series([point.timestamp for point in points], [point.value for point in points])


def differing_parameters(runs: Iterable[StoredRun]) -> dict[str, list[str]]:
    """The parameters that runs differ in: by name a value for each run, empty where it has none."""
    listed = list(runs)
    names = sorted({name for run in listed for name in run.parameters})
    values = {name: [run.parameters.get(name, "") for run in listed] for name in names}
    return {name: of_runs for name, of_runs in values.items() if len(set(of_runs)) > 1}


def _default_stores() -> list[str]:
    """The store of this machine's or this workspace's stream runs; none where no run has made it yet."""
    from sessionization.ml.mlflow_run import store_uri

    store = store_uri()
    return [] if _is_missing(store) else [store]


def _runs_of(store: str, kind: RunKind) -> list[Iterator[StoredRun]]:
    """The runs of a kind in a store, newest first within each of some groups of experiments."""
    if _is_missing(store):  # MLflow would make it
        msg = f"there is no MLflow store {store}: name the tracking URI of one that has runs"
        raise ConfigurationError(msg)
    try:
        client = _client(store)
        experiments = [one.experiment_id for one in _all(lambda token: client.search_experiments(page_token=token))]
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        msg = f"the MLflow store {store} cannot be read ({reason}): name the tracking URI of one that has runs"
        raise ConfigurationError(msg) from error
    return [
        _runs_in(client, store, kind, experiments[first : first + _EXPERIMENTS_AT_ONCE])
        for first in range(0, len(experiments), _EXPERIMENTS_AT_ONCE)
    ]


def _runs_in(client: Any, store: str, kind: RunKind, experiments: list[str]) -> Iterator[StoredRun]:
    found = _all(
        lambda token: client.search_runs(
            experiments,
            filter_string=f"tags.`{KIND_TAG}` = '{kind}'",
            max_results=_PAGE,
            order_by=["attributes.start_time DESC"],
            page_token=token,
        )
    )
    for run in found:
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
    """What is on all pages of an answer; `page_of` gets a page by its token, the next one once it is needed."""
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


def _need_mlflow() -> None:
    if importlib.util.find_spec("mlflow") is None:
        msg = f"MLflow is not installed: {how_to_install('mlflow')}, or `make notebooks` on a laptop"
        raise ConfigurationError(msg)
    configure_mlflow_import()
