"""Which input files are deleted: those that two checkpoints, as Spark writes them, are through with, and no other."""

import json
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest

from sessionization.durations import DAY_MS
from sessionization.errors import CheckpointError
from sessionization.ops.input_files import delete_read_files
from sessionization.spark.input.source import input_files
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.warm_start.read_position import refuse_files_already_read

NOW_MS = 1_763_726_400_000
OLD_MS = NOW_MS - 8 * DAY_MS


@dataclass(frozen=True, slots=True)
class Job:
    """A job's folders: what its writers left, and what its queries have done."""

    input: Path
    checkpoints: Path

    def file(self, name: str, modified_ms: int = OLD_MS) -> Path:
        file = self.input / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}\n")
        os.utime(file, ns=(modified_ms * 1_000_000,) * 2)
        return file

    def query(
        self,
        name: str,
        logs: dict[str, Iterable[tuple[int, Path]]],
        *,
        went_to: int = 9,
        committed: int = 0,
        begun: int = 0,
        sources: str = '{{"logOffset":{}}}\n1763726400',
        scheme: str = "file://",
        version: str = "v1",
    ) -> None:
        """`logs` holds the files of the source's log by name: which file was taken by which of its own batches."""
        folder = self.checkpoints / name
        for log in ("offsets", "commits", "sources/0"):
            (folder / log).mkdir(parents=True, exist_ok=True)
        for batch in range(begun + 1):
            text = sources.format(went_to if batch <= committed else went_to + 1)
            (folder / "offsets" / str(batch)).write_text(f'v1\n{{"batchTimestampMs":{NOW_MS}}}\n{text}')
        for batch in range(committed + 1):
            (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        for log, taken in logs.items():
            lines = [
                json.dumps({"path": scheme + quote(str(file)), "timestamp": OLD_MS, "batchId": batch})
                for batch, file in taken
            ]
            (folder / "sources/0" / log).write_text("\n".join([version, *lines]))

    def clear(self, retention_ms: int = 7 * DAY_MS, stop: threading.Event | None = None) -> int:
        return delete_read_files(self.checkpoints, retention_ms, NOW_MS, stop or threading.Event())


@pytest.fixture
def job(tmp_path: Path) -> Job:
    job = Job(tmp_path / "in put", tmp_path / "checkpoints")
    job.checkpoints.mkdir()
    content = {"id": "i", "fixed": {"source": "files", "input": str(job.input)}}
    (job.checkpoints / "layout.json").write_text(json.dumps(content))
    return job


def test_what_an_input_file_is(job: Job) -> None:
    read = {job.file(name) for name in ("pc_sessions/a b.json", "console_sessions/1.json")}
    for name in (".hidden.json", "_hidden.json", "a.json.tmp", ".json", "folder.json/a.json", "date=2026-11-21/a.json"):
        job.file(f"pc_sessions/{name}")
    job.file("mobile_sessions/a.json")
    assert set(input_files(job.input)) == read


def test_an_old_folder_named_like_a_file_neither_refuses_a_start_nor_is_deleted(job: Job) -> None:
    folder = job.file("pc_sessions/folder.json/a.json").parent
    os.utime(folder, ns=(OLD_MS * 1_000_000,) * 2)
    refuse_files_already_read(None, job.input, TableLocation(job.checkpoints))  # type: ignore[arg-type] # no table is asked
    for query in ("sessionize", "archive"):
        job.query(query, {"0": [(0, folder)]})
    assert job.clear() == 0
    assert folder.exists()


def test_what_both_queries_have_committed_is_deleted_and_nothing_else(job: Job) -> None:
    both, one, other, young, hidden, elsewhere = (
        job.file("pc_sessions/both ä%20.json"),
        job.file("pc_sessions/one.json"),
        job.file("console_sessions/other.json"),
        job.file("pc_sessions/young.json", NOW_MS - 7 * DAY_MS),
        job.file("pc_sessions/.hidden.json"),
        job.file("mobile_sessions/elsewhere.json"),
    )
    job.query("sessionize", {"0": [(0, both), (0, one), (0, young), (0, hidden), (0, elsewhere)]})
    job.query(
        "archive", {"0": [(0, both), (0, other), (0, young), (0, hidden), (0, elsewhere)]}, sources='{{"logOffset":{}}}'
    )
    assert job.clear() == 1
    assert [file.exists() for file in (both, one, other, young, hidden, elsewhere)] == [False] + [True] * 5
    assert job.clear() == 0, "done again it finds nothing"


def test_a_micro_batch_that_may_be_repeated_keeps_its_files(job: Job) -> None:
    done, begun = job.file("pc_sessions/done.json"), job.file("pc_sessions/begun.json")
    job.query("archive", {"0": [(0, done)], "1": [(1, begun)]}, went_to=1)
    job.query("sessionize", {"0": [(0, done)], "1": [(1, begun)]}, went_to=0, committed=3, begun=4)
    assert job.clear() == 1
    assert begun.exists()


@pytest.mark.parametrize("query", ["sessionize", "archive"])
def test_nothing_is_deleted_before_both_have_committed_anything(job: Job, query: str) -> None:
    job.query(query, {"0": [(0, job.file("pc_sessions/a.json"))]})
    assert job.clear() == 0


def test_a_compacted_log_stands_for_all_before_it(job: Job) -> None:
    files = [job.file(f"pc_sessions/{number}.json") for number in range(4)]
    log = {"8": [(8, files[1])], "9.compact": [(7, files[0]), (8, files[1]), (9, files[2])], "10": [(10, files[3])]}
    job.query("sessionize", log, went_to=10)
    job.query("archive", log, went_to=10)
    assert job.clear() == 4


def test_a_volume_is_known_by_its_path(job: Job) -> None:
    file = job.file("pc_sessions/a.json")
    for query in ("sessionize", "archive"):
        job.query(query, {"0": [(0, file)]}, scheme="dbfs:")
    assert job.clear() == 1


def test_a_file_that_was_replaced_after_it_was_read_stays(job: Job) -> None:
    file = job.file("pc_sessions/a.json", OLD_MS + 2_000)
    for query in ("sessionize", "archive"):
        job.query(query, {"0": [(0, file)]})
    assert job.clear() == 0
    assert file.exists()


def test_a_stop_leaves_the_rest(job: Job) -> None:
    for query in ("sessionize", "archive"):
        job.query(query, {"0": [(0, job.file("pc_sessions/a.json"))]})
    stop = threading.Event()
    stop.set()
    assert job.clear(stop=stop) == 0


def test_kafka_has_no_files(job: Job) -> None:
    (job.checkpoints / "layout.json").write_text('{"fixed": {"source": "kafka", "input": ""}}')
    assert job.clear() == 0


@pytest.mark.parametrize(
    "spoilt", [{"version": "v2"}, {"sources": '{{"logOffset":'}, {"sources": '{{"logOffset":"{}x"}}'}]
)
def test_what_is_not_understood_deletes_nothing(job: Job, spoilt: dict[str, str]) -> None:
    file = job.file("pc_sessions/a.json")
    job.query("sessionize", {"0": [(0, file)]})
    job.query("archive", {"0": [(0, file)]}, **spoilt)
    with pytest.raises(CheckpointError, match=r"not of a form known here|is not an offset log"):
        job.clear()
    assert file.exists()


def test_a_checkpoint_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"layout\.json cannot be read"):
        delete_read_files(tmp_path, DAY_MS, NOW_MS, threading.Event())
