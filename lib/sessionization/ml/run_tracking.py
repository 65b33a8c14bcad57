"""Store a stream run in MLflow without delaying or stopping the stream."""

import contextlib
import importlib.util
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from sessionization.ml import configure_mlflow_import
from sessionization.ml.run_names import AUTO, OFF
from sessionization.optional_packages import how_to_install
from sessionization.say import Say
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.output.progress import BatchProgress
from sessionization.spark.tables.location import TableLocation

MAX_QUEUED = 10_000
"""How many micro-batches may wait for MLflow; the ones beyond that are dropped and counted."""
FIRST_WITHIN_S, FLUSH_EVERY_S = 0.2, 5.0
CLOSE_WITHIN_S = 8.0
EVERY_ONE_BELOW, THEN_EVERY = 3_600, 60
"""Of a query, the first `EVERY_ONE_BELOW` micro-batches are stored, then one in `THEN_EVERY`: stores limit metrics."""


@contextlib.contextmanager
def track_in_mlflow(
    settings: SessionizeSettings, location: TableLocation, checkpoint_id: str, say: Say
) -> Iterator[Callable[[BatchProgress], None]]:
    """Give a function that takes each micro-batch during the run; `--mlflow` says whether they are stored."""
    if settings.monitoring.mlflow == OFF or importlib.util.find_spec("mlflow") is None:
        if settings.monitoring.mlflow not in (AUTO, OFF):
            remedy = how_to_install("mlflow")
            say(f"--mlflow {settings.monitoring.mlflow}: MLflow is not installed, so no run is kept; {remedy}")
        yield lambda _progress: None
        return

    def make_store() -> Any:
        configure_mlflow_import()
        from sessionization.ml.mlflow_run import MlflowRun  # takes a second, on the tracker's thread

        return MlflowRun(settings, location, checkpoint_id)

    with track_run(make_store, say) as add:
        yield add


@contextlib.contextmanager
def track_run(make_store: Callable[[], Any], say: Say) -> Iterator[Callable[[BatchProgress], None]]:
    """Do as `track_in_mlflow`, with a store that the caller gives, which has the methods of `MlflowRun`.

    Only the tracker's thread makes and uses it, from the first micro-batch on: a job that refuses to start has no run.
    """
    tracker = _Tracker(make_store, say)
    tracker.start()
    try:
        yield tracker.add
        tracker.status = "FINISHED"
    finally:
        tracker.closing.set()
        tracker.join(CLOSE_WITHIN_S)
        if tracker.is_alive():
            say("MLflow is behind: the last micro-batches are missing from its run, not from the tables")


class _Tracker(threading.Thread):
    """Sends what waits every few seconds. Its first failure is reported once, and ends it."""

    def __init__(self, make_store: Callable[[], Any], say: Say) -> None:
        super().__init__(name="mlflow", daemon=True)
        self.closing, self.status = threading.Event(), "FAILED"
        self._make_store, self._say = make_store, say
        self._waiting: queue.Queue[BatchProgress] = queue.Queue(MAX_QUEUED)
        self._dropped, self._seen = 0, Counter[str]()

    def add(self, progress: BatchProgress) -> None:
        """Queue a micro-batch. Called on the queries' threads: never waits, never raises."""
        try:
            self._waiting.put_nowait(progress)
        except queue.Full:
            self._dropped += 1

    def run(self) -> None:
        store, is_closing = None, False
        try:
            while not is_closing:
                is_closing = self.closing.wait(FIRST_WITHIN_S if store is None else FLUSH_EVERY_S)
                waiting = [self._waiting.get_nowait() for _ in range(self._waiting.qsize())]
                if waiting:
                    store = store or self._make_store()
                    store.log([progress for progress in waiting if self._is_stored(progress)])
            if store is not None:
                store.end(self.status, self._dropped)
        except Exception as error:  # noqa: BLE001 - no failure may reach the stream
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            with contextlib.suppress(Exception):
                self._say(
                    f"MLflow does not take this run ({reason}): the stream goes on without; --mlflow off silences this"
                )

    def _is_stored(self, progress: BatchProgress) -> bool:
        self._seen[progress.query] += 1
        seen = self._seen[progress.query]
        return seen <= EVERY_ONE_BELOW or seen % THEN_EVERY == 0
