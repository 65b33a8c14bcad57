"""How a run ends: the file that stops it, the state of the queries that a stop reports, its totals."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessionization.errors import CheckpointError
from sessionization.job import shutdown
from sessionization.job.stop_file import stop_on_file
from sessionization.job.summary import RunningTotals, progress_line, summary_lines
from sessionization.spark.checkpoint.folder import QUERIES
from tests.support.monitored import query_progress, sessionize_progress

SOON_S = 0.02


def _watched(folder: Path, lines: list[str]) -> threading.Event:
    stop = threading.Event()
    stop_on_file(folder, stop, lines.append, SOON_S)
    return stop


def test_a_new_file_stops_the_run_and_is_deleted(tmp_path: Path) -> None:
    lines: list[str] = []
    stop = _watched(tmp_path, lines)
    assert not stop.wait(5 * SOON_S)
    (tmp_path / "stop").touch()
    assert stop.wait(10)
    watcher = next((thread for thread in threading.enumerate() if thread.name == "stop file"), None)
    if watcher is not None:
        watcher.join(10)
    assert not (tmp_path / "stop").exists()
    assert lines == [f"stopping, because there is a file {tmp_path / 'stop'}"]


def test_a_file_from_before_the_start_stops_nothing(tmp_path: Path) -> None:
    lines: list[str] = []
    (tmp_path / "stop").write_text("stop\n")
    stop = _watched(tmp_path, lines)
    assert not (tmp_path / "stop").exists()
    assert not stop.wait(5 * SOON_S)
    (tmp_path / "stop").touch()
    assert stop.wait(10)
    assert "is from before this start" in lines[0]


def test_a_folder_that_is_away_for_a_while_stops_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    stop = _watched(folder, [])
    folder.rmdir()
    assert not stop.wait(5 * SOON_S)
    folder.mkdir()
    (folder / "stop").touch()
    assert stop.wait(10)


CUT_OFF = "query {} is cut off within a micro-batch: the next start repeats it, and no row is lost"
BEHIND = "`sessions` may be behind `session_changes` until the next start"


def write_batch_logs(query_folder: Path, *, started: int, committed: int, offset: str = "-") -> None:
    """Write logs in which `started` is the last micro-batch started and `committed` the last one committed."""
    for log in ("offsets", "commits"):
        (query_folder / log).mkdir(parents=True, exist_ok=True)
    (query_folder / "offsets" / str(started)).write_text(f'v1\n{{"batchTimestampMs":1}}\n{offset}')
    (query_folder / "commits" / str(committed)).write_text("v1\n{}")


class Query:
    """An idle query; `stop` writes its last micro-batches into its logs."""

    lastProgress = None  # noqa: N815 - PySpark's name

    def __init__(
        self,
        folder: Path,
        *,
        started: int = 3,
        committed: int = 3,
        never: threading.Event | None = None,
        error: str | None = None,
    ) -> None:
        """With `never` it has not caught up when the time is over; with an error it has failed."""
        self.name, self.isActive = folder.name, error is None
        self.status = {"isTriggerActive": False}
        self.is_stopped = False
        self._folder, self._started, self._committed = folder, started, committed
        self._never, self._error = never, error

    def processAllAvailable(self) -> None:  # noqa: N802
        if self._never is not None:
            self._never.wait()

    def exception(self) -> str | None:
        return self._error

    def stop(self) -> None:
        self.is_stopped = True
        write_batch_logs(self._folder, started=self._started, committed=self._committed)


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    monkeypatch.setattr(shutdown, "IDLE_WITHIN_S", 0.1)
    never = threading.Event()
    yield never
    never.set()


class RealTimeQuery(Query):
    """A query that starts the next batch whenever one ends."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.status["isTriggerActive"] = True
        self._progress_calls = 0

    @property
    def lastProgress(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802
        self._progress_calls += 1
        return {"batchId": self._progress_calls}


def raise_checkpoint_error(query: Path) -> bool:
    msg = f"{query} cannot be read"
    raise CheckpointError(msg)


def stop_and_collect(folder: Path, *special_queries: Query, is_real_time: bool = False) -> tuple[list[str], list[str]]:
    """Stops all queries, ordinary ones unless given; returns the causes and the further lines."""
    queries = {name: Query(folder / name) for name in QUERIES} | {query.name: query for query in special_queries}
    lines: list[str] = []
    causes = shutdown.stop_queries(queries, folder, lines.append, is_real_time=is_real_time)
    assert all(query.is_stopped for query in queries.values())
    assert lines.pop(0 if causes == [] else len(causes)).startswith("stopping: ")
    return causes, lines


def test_a_stop_between_two_micro_batches_prints_no_further_line(tmp_path: Path) -> None:
    assert stop_and_collect(tmp_path) == ([], [])


@pytest.mark.parametrize("name", QUERIES)
def test_a_micro_batch_that_started_as_its_query_was_stopped_is_reported(tmp_path: Path, name: str) -> None:
    """An erasure or a merge is refused then, and the line explains why."""
    assert stop_and_collect(tmp_path, Query(tmp_path / name, started=4)) == ([], [CUT_OFF.format(name)])


@pytest.mark.parametrize("started", [3, 4])
def test_sessions_may_be_behind_if_rollup_has_not_read_all_changes_in_time(
    tmp_path: Path, never: threading.Event, started: int
) -> None:
    lines = [BEHIND] if started == 3 else [CUT_OFF.format("rollup"), BEHIND]
    assert stop_and_collect(tmp_path, Query(tmp_path / "rollup", never=never, started=started)) == ([], lines)


@pytest.mark.usefixtures("never")
@pytest.mark.parametrize(("is_real_time", "lines"), [(True, [CUT_OFF.format("sessionize")]), (False, [])])
def test_a_batch_cut_off_in_real_time_mode_is_reported_though_the_checkpoint_does_not_show_it(
    tmp_path: Path,
    is_real_time: bool,  # noqa: FBT001
    lines: list[str],
) -> None:
    """Spark logs such a batch only when it ends: without the line an account could be erased meanwhile."""
    assert stop_and_collect(tmp_path, RealTimeQuery(tmp_path / "sessionize"), is_real_time=is_real_time) == ([], lines)


def test_a_checkpoint_that_cannot_be_read_ends_a_stop_unless_a_query_had_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutdown, "has_unfinished_batch", raise_checkpoint_error)
    with pytest.raises(CheckpointError):
        stop_and_collect(tmp_path)
    causes, lines = stop_and_collect(tmp_path, Query(tmp_path / "archive", error="no space left"))
    assert causes == ["query archive stopped: no space left"]
    assert "is not known" in lines[-1]


def test_a_failed_query_is_reported_with_its_cause_and_not_as_cut_off(tmp_path: Path) -> None:
    lines = ["query archive stopped: no space left"]
    assert stop_and_collect(tmp_path, Query(tmp_path / "archive", error="no space left", started=4)) == (lines, lines)


def test_the_micro_batches_of_a_run_add_up() -> None:
    run = RunningTotals()
    for progress in (sessionize_progress(0), sessionize_progress(1), query_progress("archive", quarantined=2)):
        run.add(progress)
    totals, last = run.snapshot()
    assert progress_line(totals, last).startswith(
        "14 events in, 6 started, 10 heartbeats, 8 ended, 2 repeated, 2 quarantined, micro-batch 1 took 500 ms, "
    )
    assert summary_lines(61.2, totals, None) == [
        "ran 61 s",
        "archived         8 messages, of which quarantined 2",
        "sessionized      14 events, of which repeated 2 (2 Starts, 0 Ends)",
        "changes out      6 started, 10 heartbeats, 8 ended (corrections included)",
        "live now         -",
    ]
