"""A run is recorded in MLflow on a separate thread: a failure of MLflow never affects the queries."""

import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from sessionization.ml import runs
from sessionization.ml.runs import EVERY_ONE_BELOW, THEN_EVERY, track_in_mlflow
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.output.progress import BatchProgress, Percentiles
from sessionization.spark.tables.location import TableLocation
from tests.support.settings import settings_of

NO_PERCENTILES = Percentiles(None, None, None)
Tracking = Callable[..., AbstractContextManager[Callable[[BatchProgress], None]]]


def progress(batch_id: int, query: str = "sessionize") -> BatchProgress:
    return BatchProgress(query, batch_id, 1_000 * batch_id, rows_in=1, batch_ms=7, latency=NO_PERCENTILES)


class Store:
    """A store in memory that calls a test's function at each step."""

    def __init__(self, at_begin: Callable[[], None] = lambda: None, at_log: Callable[[], None] = lambda: None) -> None:
        self.at_begin, self.at_log = at_begin, at_log
        self.began = 0
        self.logged: list[BatchProgress] = []
        self.ended: list[str] = []
        self.threads: set[int] = set()

    def begin(self, *_: object) -> "Store":
        self.threads.add(threading.get_ident())
        self.began += 1
        self.at_begin()
        return self

    def log(self, progress: BatchProgress) -> None:
        self.at_log()
        self.logged.append(progress)

    def end(self, status: str) -> None:
        self.ended.append(status)


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def track(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> Tracking:
    """Tracks a run in a given store, or in MLflow itself."""

    def track(store: Store | None = None, mlflow: str = "auto") -> AbstractContextManager[Callable]:
        if store is not None:
            monkeypatch.setattr(runs, "StreamRun", store.begin)
            monkeypatch.setattr(runs.importlib.util, "find_spec", lambda _name: True)
        folders = {name: Path(name) for name in ("input", "warehouse", "checkpoints")}
        settings = settings_of(SessionizeSettings, folders, mlflow=mlflow)
        return track_in_mlflow(settings, TableLocation(Path("tables")), "id", lines.append)

    return track


def test_every_micro_batch_is_logged_in_order_on_another_thread(lines: list[str], track: Tracking) -> None:
    store = Store()
    with track(store) as add:
        for batch_id in range(50):
            add(progress(batch_id))
    assert [batch.batch_id for batch in store.logged] == list(range(50))
    assert (store.began, store.ended, lines) == (1, ["FINISHED"], [])
    assert threading.get_ident() not in store.threads
    without_any = Store()
    with track(without_any):
        pass
    assert (without_any.began, without_any.ended) == (0, []), "a run without micro-batches is not recorded"


def test_a_run_that_failed_is_marked_as_failed(track: Tracking) -> None:
    store = Store()

    def run() -> None:
        with track(store) as add:
            add(progress(0))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        run()
    assert store.ended == ["FAILED"]


def test_a_store_that_hangs_does_not_delay_the_stream(
    lines: list[str], track: Tracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "CLOSE_WITHIN_S", 0.2)
    never = threading.Event()
    began_s = time.monotonic()
    with track(Store(at_begin=lambda: never.wait(60) and None)) as add:
        for batch_id in range(10_000):
            add(progress(batch_id))
    assert time.monotonic() - began_s < 5
    never.set()
    assert len(lines) == 1
    assert "MLflow is behind" in lines[0]


def test_of_too_many_that_wait_the_oldest_are_dropped(track: Tracking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MAX_WAITING", 10)
    monkeypatch.setattr(runs, "FLUSH_EVERY_S", 60)
    store = Store()
    with track(store) as add:
        for batch_id in range(25):
            add(progress(batch_id))
    assert [batch.batch_id for batch in store.logged] == list(range(15, 25))


@pytest.mark.parametrize("where", ["at_begin", "at_log"])
def test_a_store_that_fails_is_reported_once_and_the_run_goes_on(
    lines: list[str], track: Tracking, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "FLUSH_EVERY_S", 0.01)

    def fail() -> None:
        msg = "no such host\nat line 7"
        raise OSError(msg)

    with track(Store(**{where: fail})) as add:
        for batch_id in range(20):
            add(progress(batch_id))
            time.sleep(0.002)
    assert len(lines) == 1
    assert "(no such host)" in lines[0]


def test_a_long_run_logs_only_some_of_its_later_micro_batches(track: Tracking) -> None:
    store = Store()
    count = EVERY_ONE_BELOW + 3 * THEN_EVERY
    with track(store) as add:
        for batch_id in range(1, count + 1):
            add(progress(batch_id))
    logged = [batch.batch_id for batch in store.logged]
    assert logged[:EVERY_ONE_BELOW] == list(range(1, EVERY_ONE_BELOW + 1))
    assert logged[EVERY_ONE_BELOW:] == [EVERY_ONE_BELOW + step * THEN_EVERY for step in (1, 2, 3)]


def test_mlflow_off_starts_no_thread_and_does_not_import_mlflow(lines: list[str], track: Tracking) -> None:
    thread_count, was_imported = threading.active_count(), "mlflow" in sys.modules
    with track(mlflow="off") as add:
        add(progress(0))
        assert threading.active_count() == thread_count
    assert ("mlflow" in sys.modules) == was_imported
    assert lines == []


@pytest.mark.parametrize(("mlflow", "line_count"), [("auto", 0), ("evenings", 1)])
def test_a_missing_mlflow_is_reported_only_if_it_was_requested(
    lines: list[str], track: Tracking, monkeypatch: pytest.MonkeyPatch, mlflow: str, line_count: int
) -> None:
    monkeypatch.setattr(runs.importlib.util, "find_spec", lambda _name: None)
    with track(mlflow=mlflow) as add:
        add(progress(0))
    assert len(lines) == line_count
    assert all("the extra mlflow" in line for line in lines)
