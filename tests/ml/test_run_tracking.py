"""A run is recorded in MLflow on a separate thread: a failure of MLflow never affects the queries."""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sessionization.ml import run_tracking
from sessionization.ml.run_tracking import EVERY_ONE_BELOW, THEN_EVERY, track_in_mlflow
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.output.progress import BatchProgress, Percentiles
from sessionization.spark.tables.location import TableLocation
from tests.support.settings import settings_of

NO_PERCENTILES = Percentiles(None, None, None)


def progress(batch_id: int, query: str = "sessionize") -> BatchProgress:
    return BatchProgress(query, batch_id, 1_000 * batch_id, rows_in=1, batch_ms=7, latency=NO_PERCENTILES)


class Store:
    """A store in memory that calls a test's function at each step."""

    def __init__(self, at_begin: Callable[[], None] = lambda: None, at_log: Callable[[], None] = lambda: None) -> None:
        self.at_begin, self.at_log = at_begin, at_log
        self.began = 0
        self.logged: list[BatchProgress] = []
        self.ended: list[tuple[str, int]] = []
        self.threads: set[int] = set()

    def __call__(self) -> "Store":
        self.threads.add(threading.get_ident())
        self.began += 1
        self.at_begin()
        return self

    def log(self, micro_batches: list[BatchProgress]) -> None:
        self.at_log()
        self.logged += micro_batches

    def end(self, status: str, not_kept: int) -> None:
        self.ended.append((status, not_kept))


@pytest.fixture
def lines() -> list[str]:
    return []


def test_every_micro_batch_is_logged_in_order(lines: list[str]) -> None:
    store = Store()
    with run_tracking.track_run(store, lines.append) as add:
        for batch_id in range(50):
            add(progress(batch_id))
    assert [batch.batch_id for batch in store.logged] == list(range(50))
    assert (store.began, store.ended, lines) == (1, [("FINISHED", 0)], [])


def test_the_store_is_used_on_a_thread_of_its_own(lines: list[str]) -> None:
    store = Store()
    with run_tracking.track_run(store, lines.append) as add:
        add(progress(0))
    assert store.threads
    assert threading.get_ident() not in store.threads


def test_a_run_without_micro_batches_is_not_recorded(lines: list[str]) -> None:
    store = Store()
    with run_tracking.track_run(store, lines.append):
        pass
    assert (store.began, store.ended) == (0, [])


def test_a_run_that_failed_is_marked_as_failed(lines: list[str]) -> None:
    store = Store()

    def run() -> None:
        with run_tracking.track_run(store, lines.append) as add:
            add(progress(0))
            msg = "the query ended"
            raise RuntimeError(msg)

    with pytest.raises(RuntimeError):
        run()
    assert store.ended == [("FAILED", 0)]


def test_a_store_that_hangs_does_not_delay_the_stream(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_tracking, "MAX_QUEUED", 100)
    monkeypatch.setattr(run_tracking, "CLOSE_WITHIN_S", 0.2)
    never = threading.Event()
    began_s = time.monotonic()
    with run_tracking.track_run(Store(at_begin=lambda: never.wait(60) and None), lines.append) as add:
        for batch_id in range(10_000):
            add(progress(batch_id))
    assert time.monotonic() - began_s < 5
    never.set()
    assert lines == ["MLflow is behind: the last micro-batches are missing from its run, not from the tables"]


def test_micro_batches_that_do_not_fit_into_the_queue_are_counted(
    lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_tracking, "MAX_QUEUED", 10)
    may_begin = threading.Event()
    store = Store(at_begin=lambda: may_begin.wait(60) and None)
    with run_tracking.track_run(store, lines.append) as add:
        for batch_id in range(25):
            add(progress(batch_id))
        may_begin.set()
    assert len(store.logged) == 10
    assert store.ended == [("FINISHED", 15)]


@pytest.mark.parametrize("where", ["make", "log"])
def test_a_store_that_fails_is_reported_once_and_the_run_goes_on(
    lines: list[str], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_tracking, "FLUSH_EVERY_S", 0.01)

    def fail() -> None:
        msg = "no such host\nat line 7"
        raise OSError(msg)

    store = Store(at_begin=fail) if where == "make" else Store(at_log=fail)
    with run_tracking.track_run(store, lines.append) as add:
        for batch_id in range(20):
            add(progress(batch_id))
            time.sleep(0.002)
    assert len(lines) == 1
    assert "(no such host)" in lines[0]


def test_a_long_run_logs_only_some_of_its_later_micro_batches(lines: list[str]) -> None:
    store = Store()
    count = EVERY_ONE_BELOW + 3 * THEN_EVERY
    with run_tracking.track_run(store, lines.append) as add:
        for batch_id in range(1, count + 1):
            add(progress(batch_id))
    logged = [batch.batch_id for batch in store.logged]
    assert logged[:EVERY_ONE_BELOW] == list(range(1, EVERY_ONE_BELOW + 1))
    assert logged[EVERY_ONE_BELOW:] == [EVERY_ONE_BELOW + step * THEN_EVERY for step in (1, 2, 3)]


def settings(mlflow: str) -> SessionizeSettings:
    return settings_of(
        SessionizeSettings, input=Path("in"), warehouse=Path("tables"), checkpoints=Path("checkpoints"), mlflow=mlflow
    )


def test_mlflow_off_starts_no_thread_and_does_not_import_mlflow(lines: list[str]) -> None:
    thread_count, was_imported = threading.active_count(), "mlflow" in sys.modules
    with track_in_mlflow(settings("off"), TableLocation(Path("tables")), "id", lines.append) as add:
        add(progress(0))
        assert threading.active_count() == thread_count
    assert ("mlflow" in sys.modules) == was_imported
    assert lines == []


@pytest.mark.parametrize(("mlflow", "line_count"), [("auto", 0), ("evenings", 1)])
def test_a_missing_mlflow_is_reported_only_if_it_was_requested(
    lines: list[str], monkeypatch: pytest.MonkeyPatch, mlflow: str, line_count: int
) -> None:
    monkeypatch.setattr(run_tracking.importlib.util, "find_spec", lambda _name: None)
    with track_in_mlflow(settings(mlflow), TableLocation(Path("tables")), "id", lines.append) as add:
        add(progress(0))
    assert len(lines) == line_count
    assert all("'.[mlflow]'" in line for line in lines)
