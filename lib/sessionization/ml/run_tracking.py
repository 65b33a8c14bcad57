"""Store a stream run in MLflow without delaying or stopping the stream.

Each micro-batch's report goes into a bounded queue without waiting. A separate thread sends the reports to MLflow every
few seconds. The first failure there is reported once, and the stream goes on without MLflow.
"""

import contextlib
import importlib.util
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from sessionization.ml import configure_mlflow_import
from sessionization.ml.run_names import AUTO, OFF, RunStatus
from sessionization.optional_packages import how_to_install
from sessionization.say import Say
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.output.progress import BatchProgress
from sessionization.spark.tables.location import TableLocation

MAX_QUEUED = 10_000
"""How many micro-batches may wait for MLflow; the ones beyond that are dropped and counted."""
FLUSH_EVERY_S = 5.0
CLOSE_WITHIN_S = 8.0
EVERY_ONE_BELOW, THEN_EVERY = 3_600, 60
"""Every one of a query's first `EVERY_ONE_BELOW` micro-batches is stored, then one in `THEN_EVERY`.

MLflow stores limit the number of a run's metrics.
"""


class RunStore(Protocol):
    """Stores one run. An error that a method raises ends the tracking, not the stream."""

    def begin(self) -> None:
        """Create the run, with its parameters and data sets."""

    def log(self, micro_batches: list[BatchProgress]) -> None:
        """Store the metrics of micro-batches."""

    def end(self, status: RunStatus, not_kept: int) -> None:
        """Close the run; `not_kept` is the number of micro-batches that the queue could not take."""


@contextlib.contextmanager
def track_in_mlflow(
    settings: SessionizeSettings, location: TableLocation, checkpoint_id: str, say: Say
) -> Iterator[Callable[[BatchProgress], None]]:
    """Give a function that takes each micro-batch during the run; `--mlflow` says whether they are stored.

    The first micro-batch creates the run in MLflow: a job that refuses to start leaves no run.
    """
    if not _is_wanted(settings.monitoring.mlflow, say):
        yield lambda _progress: None
        return

    def store() -> RunStore:
        configure_mlflow_import()
        from sessionization.ml.mlflow_run import MlflowRun  # takes a second, on the tracker's thread

        return MlflowRun(settings, location, checkpoint_id)

    with track_run(store, say) as add:
        yield add


@contextlib.contextmanager
def track_run(make_store: Callable[[], RunStore], say: Say) -> Iterator[Callable[[BatchProgress], None]]:
    """Do as `track_in_mlflow`, with a store that the caller gives; only the tracker's thread creates and uses it."""
    tracker = _Tracker(make_store, say)
    status: RunStatus = "FAILED"
    try:
        yield tracker.add
        status = "FINISHED"
    finally:
        tracker.close(status)


class _Tracker:
    def __init__(self, make_store: Callable[[], RunStore], say: Say) -> None:
        self._make_store, self._say = make_store, say
        self._queue: queue.Queue[BatchProgress] = queue.Queue(MAX_QUEUED)
        self._wake, self._closing = threading.Event(), threading.Event()
        self._status: RunStatus = "FAILED"
        self._dropped = 0
        self._seen: dict[str, int] = {}
        self._thread = threading.Thread(target=self._work, name="mlflow", daemon=True)
        self._thread.start()

    def add(self, progress: BatchProgress) -> None:
        """Queue a micro-batch. Called on the queries' threads: never waits, never raises."""
        try:
            self._queue.put_nowait(progress)
        except queue.Full:
            self._dropped += 1
        self._wake.set()

    def close(self, status: RunStatus) -> None:
        self._status = status
        self._closing.set()
        self._wake.set()
        self._thread.join(CLOSE_WITHIN_S)
        if self._thread.is_alive():
            self._say("MLflow is behind: the last micro-batches are missing from its run, not from the tables")

    def _work(self) -> None:
        self._wake.wait()
        if self._queue.empty():
            return
        try:
            store = self._make_store()
            store.begin()
            while not self._closing.wait(FLUSH_EVERY_S):
                self._flush(store)
            self._flush(store)
            store.end(self._status, self._dropped)
        except Exception as error:  # noqa: BLE001 - no failure may reach the stream
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            with contextlib.suppress(Exception):
                self._say(
                    f"MLflow does not take this run ({reason}): the stream goes on without; --mlflow off silences this"
                )

    def _flush(self, store: RunStore) -> None:
        waiting = []
        with contextlib.suppress(queue.Empty):
            while True:
                waiting.append(self._queue.get_nowait())
        logged = [progress for progress in waiting if self._count_and_select(progress)]
        if logged:
            store.log(logged)

    def _count_and_select(self, progress: BatchProgress) -> bool:
        seen = self._seen[progress.query] = self._seen.get(progress.query, 0) + 1
        return seen <= EVERY_ONE_BELOW or seen % THEN_EVERY == 0


def _is_wanted(experiment: str, say: Say) -> bool:
    if experiment == OFF:
        return False
    if importlib.util.find_spec("mlflow") is not None:
        return True
    if experiment != AUTO:
        say(f"--mlflow {experiment}: MLflow is not installed, so no run is kept; {how_to_install('mlflow')}")
    return False
