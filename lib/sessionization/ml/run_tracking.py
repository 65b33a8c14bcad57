"""Keep a stream run in MLflow, beside the stream: off its way, and never able to stop it.

What a micro-batch reports goes into a bounded queue without waiting; a thread of its own takes it to MLflow every few
seconds. Whatever goes wrong there is said once, and the stream goes on without.
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

MOST_WAITING = 10_000
"""Micro-batches that may wait for MLflow; those that come beyond are not kept, and are counted."""
FLUSH_EVERY_S = 5.0
CLOSE_WITHIN_S = 8.0
EVERY_ONE_BELOW, THEN_EVERY = 3_600, 60
"""Of a run's first micro-batches of a query every one is kept, then one of so many: stores bound a run's metrics."""


class RunStore(Protocol):
    """Where a run is kept. Whatever its methods raise ends the tracking, not the stream."""

    def begin(self) -> None:
        """Make the run, with its parameters and data sets."""

    def log(self, micro_batches: list[BatchProgress]) -> None:
        """Keep the metrics of micro-batches."""

    def end(self, status: RunStatus, not_kept: int) -> None:
        """Close the run; `not_kept` is how many micro-batches the queue could not take."""


@contextlib.contextmanager
def track_in_mlflow(
    settings: SessionizeSettings, location: TableLocation, checkpoint_id: str, say: Say
) -> Iterator[Callable[[BatchProgress], None]]:
    """What to tell each micro-batch to while the run lasts; `settings.mlflow` says whether anything is kept.

    The run in MLflow begins with the first micro-batch: a start that is refused leaves none.
    """
    if not _is_wanted(settings.mlflow, say):
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
    """As `track_in_mlflow`, with a store of the caller's, which is made and used on the tracker's thread only."""
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
        self._waiting: queue.Queue[BatchProgress] = queue.Queue(MOST_WAITING)
        self._first, self._over = threading.Event(), threading.Event()
        self._status: RunStatus = "FAILED"
        self._not_kept = 0
        self._seen: dict[str, int] = {}
        self._thread = threading.Thread(target=self._work, name="mlflow", daemon=True)
        self._thread.start()

    def add(self, progress: BatchProgress) -> None:
        """Called on the queries' threads: never waits, never raises."""
        try:
            self._waiting.put_nowait(progress)
        except queue.Full:
            self._not_kept += 1
        self._first.set()

    def close(self, status: RunStatus) -> None:
        self._status = status
        self._over.set()
        self._first.set()
        self._thread.join(CLOSE_WITHIN_S)
        if self._thread.is_alive():
            self._say("MLflow is behind: the last micro-batches are missing from its run, not from the tables")

    def _work(self) -> None:
        self._first.wait()
        if self._waiting.empty():
            return
        try:
            store = self._make_store()
            store.begin()
            while not self._over.wait(FLUSH_EVERY_S):
                self._flush(store)
            self._flush(store)
            store.end(self._status, self._not_kept)
        except Exception as error:  # noqa: BLE001 - whatever it was, the stream must not hear of it
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            with contextlib.suppress(Exception):
                self._say(
                    f"MLflow does not take this run ({reason}): the stream goes on without; --mlflow off says no more"
                )

    def _flush(self, store: RunStore) -> None:
        taken = []
        with contextlib.suppress(queue.Empty):
            while True:
                taken.append(self._waiting.get_nowait())
        kept = [progress for progress in taken if self._is_kept(progress)]
        if kept:
            store.log(kept)

    def _is_kept(self, progress: BatchProgress) -> bool:
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
