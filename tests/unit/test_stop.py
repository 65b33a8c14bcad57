"""What a stop says of the three queries: what the checkpoint tells once they have stopped."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sessionization.errors import CheckpointError
from sessionization.job import shutdown
from sessionization.spark.checkpoint.folder import QUERIES
from tests.unit.begun import begun_and_done

STOPPING = "stopping: finishing the micro-batches that have begun"
CUT_OFF = "query {} is cut off within a micro-batch, which the next start repeats"
BEHIND = "`sessions` is behind `session_changes` until the next start"
NEWEST = 900


class Query:
    """One that idles; as it is stopped its last micro-batches are written down as they are given."""

    isActive = True  # noqa: N815 - PySpark's name
    lastProgress = None  # noqa: N815

    def __init__(self, folder: Path, *, begun: int = 3, done: int = 3, reads_to: int = NEWEST + 1) -> None:
        self.name = folder.name
        self.status = {"isTriggerActive": False}
        self.is_stopped = False
        self._folder, self._begun, self._done, self._reads_to = folder, begun, done, reads_to

    def processAllAvailable(self) -> None:  # noqa: N802
        pass

    def exception(self) -> None:
        return None

    def stop(self) -> None:
        self.is_stopped = True
        offset = {"sourceVersion": 1, "reservoirVersion": self._reads_to, "index": -1, "isStartingVersion": False}
        begun_and_done(self._folder, begun=self._begun, done=self._done, offset=json.dumps(offset))


class Slow(Query):
    """One that has not caught up when the time is over."""

    def __init__(self, folder: Path, never: threading.Event, **then: int) -> None:
        super().__init__(folder, **then)
        self._never = never

    def processAllAvailable(self) -> None:  # noqa: N802
        self._never.wait()


class Failed(Query):
    isActive = False  # noqa: N815

    def exception(self) -> str:  # type: ignore[override]
        return "no space left"


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    monkeypatch.setattr(shutdown, "REST_WITHIN_S", 0.1)
    never = threading.Event()
    yield never
    never.set()


class InRealTime(Query):
    """One that has begun the next batch whenever one is done."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.status["isTriggerActive"] = True
        self._asked = 0

    @property
    def lastProgress(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802
        self._asked += 1
        return {"batchId": self._asked}


def cannot_be_read(query: Path) -> bool:
    msg = f"{query} cannot be read"
    raise CheckpointError(msg)


def has_rows_since(version: int) -> bool:
    return version <= NEWEST


def stopped(
    folder: Path,
    *other: Query,
    has_append_since: Callable[[int], bool] = has_rows_since,
    is_real_time: bool = False,
) -> tuple[list[str], list[str]]:
    """What a stop gave back, and said; the queries that are not given end well."""
    queries = {name: Query(folder / name) for name in QUERIES} | {query.name: query for query in other}
    said: list[str] = []
    causes = shutdown.stop_queries(queries, folder, has_append_since, said.append, is_real_time=is_real_time)
    assert all(query.is_stopped for query in queries.values())
    assert said.pop(0 if causes == [] else len(causes)) == STOPPING
    return causes, said


def test_a_stop_between_two_micro_batches_says_nothing_more(tmp_path: Path) -> None:
    assert stopped(tmp_path) == ([], [])


@pytest.mark.parametrize("name", QUERIES)
def test_a_micro_batch_that_began_as_its_query_was_stopped_is_told(tmp_path: Path, name: str) -> None:
    """Who erases an account, or merges, is refused then, and would wonder why."""
    cut_off = Query(tmp_path / name, begun=4)
    assert stopped(tmp_path, cut_off) == ([], [CUT_OFF.format(name)])


def test_sessions_is_behind_where_rollup_has_not_read_all_in_time(tmp_path: Path, never: threading.Event) -> None:
    slow = Slow(tmp_path / "rollup", never, reads_to=NEWEST)
    assert stopped(tmp_path, slow) == ([], [BEHIND])


def test_and_is_not_where_its_last_micro_batch_took_the_rest(tmp_path: Path, never: threading.Event) -> None:
    assert stopped(tmp_path, Slow(tmp_path / "rollup", never)) == ([], [])


@pytest.mark.parametrize("begun", [3, 4])
def test_sessions_is_behind_where_its_last_merge_is_cut_off(tmp_path: Path, never: threading.Event, begun: int) -> None:
    slow = Slow(tmp_path / "rollup", never, begun=begun)
    said = [] if begun == 3 else [CUT_OFF.format("rollup"), BEHIND]
    assert stopped(tmp_path, slow) == ([], said)


@pytest.mark.usefixtures("never")
@pytest.mark.parametrize(("is_real_time", "said"), [(True, [CUT_OFF.format("sessionize")]), (False, [])])
def test_what_real_time_mode_cuts_off_the_checkpoint_does_not_tell(
    tmp_path: Path,
    is_real_time: bool,  # noqa: FBT001
    said: list[str],
) -> None:
    """It writes down what it has begun when it is done: without the line an account would be erased meanwhile."""
    assert stopped(tmp_path, InRealTime(tmp_path / "sessionize"), is_real_time=is_real_time) == ([], said)


def test_a_table_that_does_not_answer_in_time_hinders_no_stop(
    tmp_path: Path, never: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutdown, "_ANSWER_S", 0.1)
    slow = Slow(tmp_path / "rollup", never)
    assert stopped(tmp_path, slow, has_append_since=lambda _: never.wait()) == (
        [],
        [BEHIND.replace("is", "may be", 1)],
    )


def test_a_checkpoint_that_cannot_be_read_is_no_graceful_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutdown, "has_unfinished_batch", cannot_be_read)
    with pytest.raises(CheckpointError):
        stopped(tmp_path)


def test_why_a_query_failed_is_told_also_where_the_checkpoint_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutdown, "has_unfinished_batch", cannot_be_read)
    causes, said = stopped(tmp_path, Failed(tmp_path / "archive"))
    assert causes == ["query archive stopped: no space left"]
    assert said[-1] == f"whether a micro-batch is cut off is not known: {tmp_path}/sessionize cannot be read"


def test_a_query_that_failed_says_why_and_not_that_it_was_cut_off(tmp_path: Path) -> None:
    told = ["query archive stopped: no space left"]
    assert stopped(tmp_path, Failed(tmp_path / "archive", begun=4)) == (told, told)
