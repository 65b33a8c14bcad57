"""The job with its input, tables and checkpoints on HDFS: no kill and no second driver loses or doubles a row."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.core.session_state import Rules
from tests.whole_job.accounts import unaccounted
from tests.whole_job.checkpoints import last_committed, last_started
from tests.whole_job.evening import Evening
from tests.whole_job.hdfs import Hdfs
from tests.whole_job.hdfs_job import QUERIES, HdfsJob
from tests.whole_job.oracle import build_oracle
from tests.whole_job.state import entries_and_timers
from tests.whole_job.tables import differences, read_tables

pytestmark = [pytest.mark.job, pytest.mark.long]

RULES = Rules(heartbeat_ms=5_000)
EVENING = {"events": 600, "rate": 20, "session_length": "10s", "dirt": 0.2, "file_interval": "1s"}
_TRIES = 3
_FILES_AT_ONCE = 2
LEASE_IS_LOST_S = 120


@pytest.fixture
def hdfs(tmp_path: Path) -> Iterator[Hdfs]:
    with Hdfs(tmp_path / "hdfs") as running:
        yield running


def a_job(folder: Path, hdfs: Hdfs) -> HdfsJob:
    return HdfsJob(folder, hdfs, "--heartbeat=5s", "--archive-every=2s", "--rollup-every=2s")


@pytest.fixture
def job(tmp_path: Path, hdfs: Hdfs) -> Iterator[HdfsJob]:
    job = a_job(tmp_path, hdfs)
    yield job
    job.kill_if_running()


def test_a_job_on_hdfs_that_is_killed_in_each_query_loses_and_doubles_nothing(
    job: HdfsJob, tmp_path: Path, spark: SparkSession
) -> None:
    evening = Evening(tmp_path / "staging", **EVENING)
    for query in QUERIES:
        assert any(leaves_a_micro_batch_half_done(job, query, evening) for _ in range(_TRIES)), f"{query} never does"
    job.release(evening)
    job.run_until_done()
    check_every_row(job, spark)


def test_a_driver_that_slept_longer_than_its_lease_writes_nothing_more(
    job: HdfsJob, hdfs: Hdfs, tmp_path: Path, spark: SparkSession
) -> None:
    evening = Evening(tmp_path / "staging", **EVENING)
    second = a_job(tmp_path, hdfs)
    second.stderr = tmp_path / "second.txt"
    job.release(evening, 20)
    job.start()
    queries = [job.checkpoints / query for query in QUERIES]
    job.wait_until(lambda: all(last_committed(query) >= 0 for query in queries), "each query has a micro-batch")
    job.wait_for_running_micro_batch()
    os.killpg(job.pid, signal.SIGSTOP)  # the job and its engine, in the middle of whatever they do
    try:
        newest = last_committed(job.checkpoints / "sessionize")
        second.start()
        second.wait_until(
            lambda: last_committed(second.checkpoints / "sessionize") > newest + 1, "the second driver has the lease"
        )
        second.release(evening, 20)
        os.killpg(job.pid, signal.SIGCONT)
        assert job.wait_for_end(within_s=LEASE_IS_LOST_S) == 1, job.output_lines()[-5:]
        second.release(evening)
        second.wait_until_done()
        assert second.terminate() == 0
    finally:
        second.kill_if_running()
    assert any("waiting for sessionize (process" in line for line in second.output_lines())
    assert "lease 'stream'" in job.output_lines()[-1]
    check_every_row(second, spark)


def check_every_row(job: HdfsJob, spark: SparkSession) -> None:
    job.pull()
    oracle, tables = build_oracle(job.checkpoints, RULES), read_tables(job.warehouse)
    assert differences(oracle, tables, job.checkpoints) == []
    files = Counter(job.input.glob("*/*.json"))
    assert Counter(oracle.files["sessionize"]) == Counter(oracle.files["archive"]) == files
    entries, timers = entries_and_timers(spark, job.location_of(job.checkpoints))
    assert Counter(entries) == Counter(oracle.entries)
    assert dict(timers) == oracle.timers
    assert unaccounted(tables, [entry[:2] for entry in entries if entry[2] == "pending_end"]) == []


def leaves_a_micro_batch_half_done(job: HdfsJob, query: str, evening: Evening) -> bool:
    """Start the job, give it files, and kill it in a micro-batch of a query; whether it was not committed by then."""
    checkpoint = job.checkpoints / query
    job.watched = (query,)
    job.look()
    before = seen = last_committed(checkpoint)
    job.release(evening, _FILES_AT_ONCE)

    def is_running() -> bool:
        nonlocal seen
        if (committed := last_committed(checkpoint)) > seen:
            job.release(evening, _FILES_AT_ONCE)
            seen = committed
        return before < committed < last_started(checkpoint)

    job.start()
    job.wait_until(is_running, f"a micro-batch of {query} runs after another")
    job.kill()
    job.look()
    job.watched = QUERIES
    return last_committed(checkpoint) < last_started(checkpoint)
