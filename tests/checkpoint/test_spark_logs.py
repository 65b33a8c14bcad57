"""Spark's own logs in a checkpoint: micro-batches are read from them, and deleted files and merged takes forgotten."""

import errno
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sessionization import files
from sessionization.durations import HOUR_MS
from sessionization.errors import CheckpointError
from sessionization.job.job_input import name_interrupted_files
from sessionization.spark.checkpoint import file_source_log
from sessionization.spark.checkpoint.file_source_log import (
    committed_files,
    committed_takes,
    forget_deleted_files,
    forget_merged_takes,
    interrupted_files,
    log_bytes,
)
from sessionization.spark.checkpoint.spark_logs import (
    StartedBatch,
    newest_committed_batch,
    newest_started_batch,
    oldest_started_batch,
    read_started_batch,
    remove_partial_first_entry,
)
from sessionization.spark.checkpoint.take_log import TAKES_FOLDER, TakeLog, TakenFile
from sessionization.spark.input.source import input_files
from tests.support.default_streams import STREAMS
from tests.support.failing import failing_with
from tests.support.read_files import NOW_MS, OLD_MS, Job, job_in


def write_log(query: Path, log: str, name: str, text: str = "v1\n{}") -> None:
    (query / log).mkdir(parents=True, exist_ok=True)
    (query / log / name).write_text(text)


def test_the_newest_micro_batch_has_the_greatest_number(tmp_path: Path) -> None:
    assert (newest_started_batch(tmp_path), newest_committed_batch(tmp_path)) == (-1, -1)
    for name in ("9", "10", ".11.crc", "12.tmp"):
        write_log(tmp_path, "offsets", name)
    write_log(tmp_path, "commits", "9")
    assert (newest_started_batch(tmp_path), newest_committed_batch(tmp_path)) == (10, 9)


def test_on_a_volume_the_newest_micro_batch_counts_though_a_listing_lacks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "123":
        write_log(tmp_path, "offsets", name)
        write_log(tmp_path, "commits", name)
    list_all = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda folder: (file for file in list_all(folder) if file.name == "1"))
    monkeypatch.setattr(files, "VOLUMES", tmp_path)
    assert (newest_started_batch(tmp_path), newest_committed_batch(tmp_path)) == (3, 3)


def test_clock_and_partitions_of_a_micro_batch_are_read_from_its_offset_log(tmp_path: Path) -> None:
    conf = '{"batchTimestampMs":1000,"conf":{"spark.sql.shuffle.partitions":"5"}}'
    write_log(tmp_path, "offsets", "3", f"v1\n{conf}\n-")
    assert read_started_batch(tmp_path, 3) == StartedBatch(1_000, 5, (None,))
    write_log(tmp_path, "offsets", "4", 'v1\n{"batchTimestampMs":1000}\n-')
    assert read_started_batch(tmp_path, 4) == StartedBatch(1_000, None, (None,))


@pytest.mark.parametrize("text", ["", "v1\n[]", "v1\n{}", "v1\nnothing", 'v1\n{"batchTimestampMs":1,"conf":[]}'])
def test_a_file_that_is_no_offset_log_is_refused(tmp_path: Path, text: str) -> None:
    write_log(tmp_path, "offsets", "0", text)
    with pytest.raises(CheckpointError, match="0 is not an offset log"):
        read_started_batch(tmp_path, 0)


raise_permission_error = failing_with(errno.EACCES)


@pytest.mark.parametrize(
    ("read", "log"),
    [(newest_started_batch, "offsets"), (oldest_started_batch, "offsets"), (newest_committed_batch, "commits")],
)
def test_a_log_that_this_user_may_not_list_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], int], log: str
) -> None:
    write_log(tmp_path, log, "0")
    monkeypatch.setattr(Path, "iterdir", raise_permission_error)
    message = f"{tmp_path / log} cannot be read (Permission denied): see to its permissions"
    with pytest.raises(CheckpointError, match=re.escape(message)):
        read(tmp_path)


def test_a_partial_entry_that_cannot_be_deleted_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(tmp_path, "offsets", ".0.5a6d.tmp")
    monkeypatch.setattr(Path, "unlink", raise_permission_error)
    with pytest.raises(CheckpointError, match=r"offsets cannot be cleared of .* \(Permission denied\): see to its"):
        remove_partial_first_entry(tmp_path)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return job_in(tmp_path)


def forget(job: Job, now_ms: int = NOW_MS) -> int:
    return forget_deleted_files(job.checkpoints / "archive", set(input_files(job.input, STREAMS)), now_ms)


def names(job: Job) -> list[str]:
    return sorted(file.path.name for file in committed_files(job.checkpoints / "archive"))


def test_entries_of_deleted_files_are_removed(job: Job) -> None:
    present, deleted = job.file("pc_sessions/a ä%20.json"), job.input / "pc_sessions" / "b.json"
    job.query(
        "archive", {"9.compact": [(3, present), (4, deleted)], "10": [(10, deleted.with_name("c.json"))]}, read_to=10
    )
    checksum = job.checkpoints / "archive" / "sources" / "0" / ".9.compact.crc"
    checksum.touch()
    before = log_bytes(job.checkpoints / "archive")
    assert forget(job) == 1
    assert names(job) == ["a ä%20.json", "c.json"], "what is not compacted yet stays"
    assert 0 < log_bytes(job.checkpoints / "archive") < before
    assert not checksum.exists()
    assert forget(job) == 0


def test_an_entry_of_an_uncommitted_micro_batch_stays(job: Job) -> None:
    job.file("pc_sessions/a.json")
    missing = job.input / "pc_sessions" / "b.json"
    job.query("archive", {"9.compact": [(3, missing.with_name("a.json")), (9, missing)]}, read_to=8, started=1)
    assert forget(job) == 0


def test_a_young_entry_stays_since_its_file_may_be_out_of_sight_for_a_moment(job: Job) -> None:
    present = job.file("pc_sessions/a.json")
    job.query("archive", {"9.compact": [(3, present), (4, present.with_name("b.json"))]})
    assert forget(job, OLD_MS + HOUR_MS - 1) == 0
    assert forget(job, OLD_MS + HOUR_MS) == 1


def test_an_empty_folder_may_be_a_lost_mount(job: Job) -> None:
    present, lost = job.file("pc_sessions/a.json"), job.input / "console_sessions" / "b.json"
    job.query("archive", {"9.compact": [(3, present), (4, lost)]})
    lost.parent.mkdir()
    assert forget(job) == 0
    job.file("console_sessions/new.json")  # the log does not name it: another disk may be mounted there
    assert forget(job) == 0


@pytest.mark.parametrize("text", ["v2\n", "v1\nnonsense", 'v1\n{"path":"file:///a"}'])
def test_a_log_of_another_form_is_not_changed(job: Job, text: str) -> None:
    job.query("archive", {"9.compact": []})
    log = job.checkpoints / "archive" / "sources" / "0" / "9.compact"
    log.write_text(text)
    with pytest.raises(CheckpointError, match="is not of a form known here"):
        forget(job)
    assert log.read_text() == text


def test_without_a_log_there_is_nothing_to_forget(job: Job) -> None:
    assert (forget(job), log_bytes(job.checkpoints / "archive")) == (0, 0)
    job.query("archive", {"0": [(0, Path("/a.json"))]})
    assert (forget(job), log_bytes(job.checkpoints / "archive")) == (0, 0)


def test_the_files_of_a_micro_batch_that_did_not_end_are_known(job: Job) -> None:
    query = job.checkpoints / "archive"
    assert list(interrupted_files(query)) == []
    log = {"9.compact": [(9, Path("/a.json"))], "10": [(10, Path("/b c.json")), (10, Path("/d.json"))]}
    job.query("archive", log, read_to=9, committed=0, started=1)
    assert [file.path for file in interrupted_files(query)] == [Path("/b c.json"), Path("/d.json")]
    job.query("archive", log, read_to=10, committed=1, started=1)
    assert list(interrupted_files(query)) == []


def test_the_events_of_a_warm_start_are_no_input_files(job: Job) -> None:
    """They are the second source of `sessionize`, and the first micro-batch may have nothing else."""
    job.query("sessionize", {}, started=1, sources='-\n{{"logOffset":{}}}')
    sessionize = job.checkpoints / "sessionize"
    (sessionize / "sources" / "1").mkdir()
    entry = {"path": "file:///c/unread/part-0.parquet", "timestamp": OLD_MS, "batchId": 9}
    (sessionize / "sources" / "1" / "0").write_text(f"v1\n{json.dumps(entry)}")
    assert list(interrupted_files(sessionize)) == list(committed_files(sessionize)) == []
    assert committed_takes(sessionize) == set()


@pytest.mark.parametrize("is_volume", [False, True])
def test_the_entries_of_takes_that_are_merged_and_deleted_are_forgotten(
    job: Job,
    monkeypatch: pytest.MonkeyPatch,
    is_volume: bool,  # noqa: FBT001
) -> None:
    if is_volume:
        monkeypatch.setattr(files, "VOLUMES", job.checkpoints)
    takes, query = job.checkpoints / TAKES_FOLDER, job.checkpoints / "archive"
    log = TakeLog(takes)
    for number in range(4):
        log.append([TakenFile(f"file:///in/pc_sessions/{number}.json", 0, 0, 5)])
    for number in range(2):
        (takes / f"{number}.take").unlink()
    job.query("archive", {"3.compact": [(number, takes / f"{number}.take") for number in range(4)]}, read_to=3)
    assert (forget_merged_takes(query), forget_merged_takes(query)) == (2, 0)
    assert committed_takes(query) == {2, 3}
    assert [file.name for file in (query / "sources" / "0").iterdir()] == ["3.compact"]


def test_the_entry_of_a_take_that_a_listing_lacks_stays(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """A volume may list a new take some seconds late. Without its entry the query would read it again."""
    takes = job.checkpoints / TAKES_FOLDER
    job.query("archive", {"3.compact": [(number, takes / f"{number}.take") for number in range(4)]}, read_to=3)
    monkeypatch.setattr(file_source_log, "take_numbers", lambda _: [2])
    assert forget_merged_takes(job.checkpoints / "archive") == 2
    assert committed_takes(job.checkpoints / "archive") == {2, 3}
    monkeypatch.setattr(file_source_log, "take_numbers", lambda _: [])
    assert forget_merged_takes(job.checkpoints / "archive") == 0


def test_the_files_of_takes_of_a_micro_batch_that_did_not_end_are_known(job: Job) -> None:
    takes = job.checkpoints / TAKES_FOLDER
    log = TakeLog(takes)
    for name in ("done", "cut off"):
        log.append([TakenFile(f"file:///in/pc_sessions/{name}.json", 0, 0, 5)])
    job.query("archive", {"0": [(0, takes / "0.take")], "1": [(1, takes / "1.take")]}, read_to=0, started=1)
    query = job.checkpoints / "archive"
    assert {file.path.name for file in interrupted_files(query)} == {"cut off.json"}
    assert committed_takes(query) == {0}
    assert {file.path.name for file in committed_files(query)} == {"done.json"}


def test_a_start_names_the_largest_files_of_a_micro_batch_that_did_not_end(job: Job) -> None:
    files = [job.file(f"pc_sessions/{name}.json") for name in ("1", "2", "3", "line\nbreak", "moved away")]
    files[3].write_text("x" * 5_000)
    files[4].unlink()
    job.query("sessionize", {"0": [(0, file) for file in files]}, committed=-1, read_to=-1)
    lines: list[str] = []
    name_interrupted_files(job.checkpoints, lines.append)
    [line] = lines
    assert "it reads 5 files, the largest are pc_sessions/line\\nbreak.json (5,000 bytes), pc_sessions/" in line
    assert "move that file out of its folder (docs/runbook.md, " in line
