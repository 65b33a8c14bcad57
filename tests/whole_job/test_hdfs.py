"""The job with its input, tables and checkpoints on HDFS: no kill and no second driver loses or doubles a row."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.checkpoints import last_committed
from tests.support.evening import Evening
from tests.support.hdfs import Hdfs
from tests.support.job import QUERIES, ROOT, Ended, run_to_end
from tests.support.remote_job import RemoteJob
from tests.support.three_kills import (
    EVENING,
    OPTIONS,
    check_every_row,
    play_with_a_driver_that_sleeps,
    play_with_a_kill_in_each_query,
)

pytestmark = [pytest.mark.job, pytest.mark.long]

REFUSED = re.compile(r"lease 'stream' .* is held by sessionize \(process \d+ on \S+\)")
JOBS: dict[str, tuple[str, ...]] = {
    "maintain": ("--message-retention=1000d",),  # the evening is some months ago
    "erase_account": ("--account=nobody",),
    "backfill": ("--merge",),
    "rescale_state": ("--partitions=3",),
}


@pytest.fixture
def hdfs(tmp_path: Path) -> Iterator[Hdfs]:
    with Hdfs(tmp_path / "hdfs") as running:
        yield running


def a_job(folder: Path, hdfs: Hdfs) -> RemoteJob:
    return RemoteJob(folder, hdfs, *OPTIONS)


@pytest.fixture
def job(tmp_path: Path, hdfs: Hdfs) -> Iterator[RemoteJob]:
    with a_job(tmp_path, hdfs) as job:
        yield job


def test_a_job_on_hdfs_that_is_killed_in_each_query_loses_and_doubles_nothing(
    job: RemoteJob, tmp_path: Path, spark: SparkSession
) -> None:
    evening = Evening(tmp_path / "staging", **EVENING)
    play_with_a_kill_in_each_query(job, evening)
    check_every_row(job, spark)


def test_a_driver_that_slept_longer_than_its_lease_writes_nothing_more(
    job: RemoteJob, hdfs: Hdfs, tmp_path: Path, spark: SparkSession
) -> None:
    second = a_job(tmp_path, hdfs)
    second.stderr = tmp_path / "second.txt"
    play_with_a_driver_that_sleeps(job, second, Evening(tmp_path / "staging", **EVENING))
    check_every_row(second, spark)


def run_job(name: str, stream: RemoteJob, folder: Path) -> Ended:
    """Run a job of `JOBS` on the tables and the checkpoint of the stream."""
    tables = () if name == "rescale_state" else stream.table_options()
    places = (*tables, "--checkpoints", stream.location_of(stream.checkpoints))
    script = ROOT / "jobs" / f"{name}.py"
    return run_to_end(*places, *JOBS[name], cwd=folder, entry=(script,), has_output=name == "erase_account")


def test_jobs_that_change_the_tables_are_refused_while_the_stream_runs_and_change_no_row_after_it(
    job: RemoteJob, tmp_path: Path, spark: SparkSession
) -> None:
    evening = Evening(tmp_path / "staging", **EVENING)
    job.release(evening, 20)
    job.start()
    queries = [job.checkpoints / query for query in QUERIES]
    job.wait_until(lambda: all(last_committed(query) >= 0 for query in queries), "each query has a micro-batch")
    for name in JOBS:
        refused = run_job(name, job, tmp_path)
        assert refused.code == 2, (name, refused.lines)
        assert REFUSED.search(refused.lines[-1]), (name, refused.lines)
    # The backfill replays messages in the order of their files' times. A job that runs may list a folder while files
    # are copied into it, and read a later file first.
    assert job.terminate() == 0
    job.release(evening)
    job.start()
    job.wait_until_done()
    assert job.terminate() == 0
    for name in JOBS:
        ended = run_job(name, job, tmp_path)
        assert ended.code == 0, (name, ended.lines)
    check_every_row(job, spark)
