"""Store a stream run in MLflow without delaying or stopping the stream."""

import importlib.util
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sessionization.ml import configure_mlflow_import
from sessionization.ml.run_names import AUTO, OFF
from sessionization.optional_packages import how_to_install
from sessionization.say import Say
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.output.progress import BatchProgress
from sessionization.spark.tables.location import TableLocation

MAX_WAITING = 10_000
"""How many micro-batches may wait for MLflow; then the oldest are dropped."""
FIRST_WITHIN_S, FLUSH_EVERY_S, CLOSE_WITHIN_S = 0.2, 5.0, 8.0
EVERY_ONE_BELOW, THEN_EVERY = 3_600, 60
"""Of a query, the first `EVERY_ONE_BELOW` micro-batches are stored, then one in `THEN_EVERY`: stores limit metrics."""


@contextmanager
def track_in_mlflow(
    settings: SessionizeSettings, location: TableLocation, checkpoint_id: str, say: Say
) -> Iterator[Callable[[BatchProgress], None]]:
    """Give a function that takes each micro-batch during the run; `--mlflow` says whether they are stored.

    A thread makes the run at the first micro-batch (a job that refuses to start has none), and sends what waits every
    few seconds. Its first failure is printed, and ends it.
    """
    experiment = settings.monitoring.mlflow
    if experiment == OFF or importlib.util.find_spec("mlflow") is None:
        if experiment not in (AUTO, OFF):
            say(f"--mlflow {experiment}: MLflow is not installed, so no run is kept; {how_to_install('mlflow')}")
        yield lambda _progress: None
        return
    waiting: deque[BatchProgress] = deque(maxlen=MAX_WAITING)
    closing, status, seen = threading.Event(), "FAILED", Counter[str]()

    def is_stored(progress: BatchProgress) -> bool:
        seen[progress.query] += 1
        return seen[progress.query] <= EVERY_ONE_BELOW or seen[progress.query] % THEN_EVERY == 0

    def store() -> None:
        run, is_closing = None, False
        try:
            while not is_closing:
                is_closing = closing.wait(FIRST_WITHIN_S if run is None else FLUSH_EVERY_S)
                taken = [waiting.popleft() for _ in range(len(waiting))]
                if taken:
                    run = run or _new_run(settings, {"checkpoint": checkpoint_id, "tables": str(location)})
                    run.log([progress for progress in taken if is_stored(progress)])
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


def _new_run(settings: SessionizeSettings, tags: dict[str, str]) -> Any:
    configure_mlflow_import()
    from sessionization.ml.mlflow_run import MlflowRun  # takes a second

    return MlflowRun(settings, tags)
