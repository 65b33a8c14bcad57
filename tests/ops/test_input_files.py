"""Maintenance deletes the input files that both queries have committed, by their checkpoints as Spark writes them."""

import os
from pathlib import Path

import pytest

from sessionization.durations import DAY_MS
from sessionization.errors import CheckpointError
from sessionization.spark.checkpoint.take_log import TAKES_FOLDER, TakeLog, TakenFile
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.warm_start.read_position import refuse_files_already_read
from tests.support.default_streams import STREAMS
from tests.support.read_files import NOW_MS, OLD_MS, Job, job_in


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return job_in(tmp_path)


def test_an_old_folder_named_like_a_file_refuses_no_start_and_is_not_deleted(job: Job) -> None:
    folder = job.file("pc_sessions/folder.json/a.json").parent
    os.utime(folder, ns=(OLD_MS * 1_000_000,) * 2)
    location = TableLocation(job.checkpoints)
    refuse_files_already_read(None, job.input, STREAMS, location)  # type: ignore[arg-type] # no table is read
    for query in ("sessionize", "archive"):
        job.query(query, {"0": [(0, folder)]})
    assert job.delete() == 0
    assert folder.exists()


def test_only_files_that_both_queries_have_committed_are_deleted(job: Job) -> None:
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
    assert job.delete() == 1
    assert [file.exists() for file in (both, one, other, young, hidden, elsewhere)] == [False] + [True] * 5
    assert job.delete() == 0, "done again it finds nothing"


def test_files_of_a_micro_batch_that_may_be_repeated_are_not_deleted(job: Job) -> None:
    committed_file, started_file = job.file("pc_sessions/done.json"), job.file("pc_sessions/begun.json")
    job.query("archive", {"0": [(0, committed_file)], "1": [(1, started_file)]}, read_to=1)
    job.query("sessionize", {"0": [(0, committed_file)], "1": [(1, started_file)]}, read_to=0, committed=3, started=4)
    assert job.delete() == 1
    assert started_file.exists()


@pytest.mark.parametrize("modified_ms", [315_532_800_000, 7_258_118_400_000], ids=["1980", "2200"])
@pytest.mark.parametrize("is_merged", [True, False])
def test_retention_counts_from_the_take_whatever_a_foreign_clock_says(
    job: Job,
    modified_ms: int,
    is_merged: bool,  # noqa: FBT001
) -> None:
    file = job.file("pc_sessions/a:b.json", modified_ms)
    log = TakeLog(job.checkpoints / TAKES_FOLDER)
    log.append([TakenFile(file.as_uri(), modified_ms, NOW_MS - DAY_MS, 3)])
    for query in ("sessionize", "archive"):
        job.query(query, {"0": [(0, job.checkpoints / TAKES_FOLDER / "0.take")]})
    if is_merged:
        log.merge({0}, {"pc_sessions": {file.name}}, NOW_MS)
    assert job.delete(DAY_MS) == 0
    assert job.delete(DAY_MS - 1) == 1
    assert not file.exists()


def test_a_file_that_was_replaced_after_it_was_read_is_not_deleted(job: Job) -> None:
    file = job.file("pc_sessions/a.json", OLD_MS + 2_000)
    for query in ("sessionize", "archive"):
        job.query(query, {"0": [(0, file)]})
    assert job.delete() == 0
    assert file.exists()


def test_nothing_is_deleted_for_a_stream_from_kafka(job: Job) -> None:
    (job.checkpoints / "layout.json").write_text('{"pinned": {"source": "kafka", "input": ""}}')
    assert job.delete() == 0


@pytest.mark.parametrize(
    "damage", [{"version": "v2"}, {"sources": '{{"logOffset":'}, {"sources": '{{"logOffset":"{}x"}}'}]
)
def test_nothing_is_deleted_if_a_log_cannot_be_parsed(job: Job, damage: dict[str, str]) -> None:
    file = job.file("pc_sessions/a.json")
    job.query("sessionize", {"0": [(0, file)]})
    job.query("archive", {"0": [(0, file)]}, **damage)
    with pytest.raises(CheckpointError, match=r"not of a form known here|is not an offset log"):
        job.delete()
    assert file.exists()
