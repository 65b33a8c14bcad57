"""The dirty evening of the tests of other storage than a folder: kills, a sleeping driver, and every row checked."""

import os
import signal

from pyspark.sql import SparkSession

from sessionization.core.session_state import Rules
from tests.support.checkpoints import last_committed, last_started
from tests.support.evening import Evening
from tests.support.harness import differences_of_job
from tests.support.job import QUERIES, Job
from tests.support.oracle import build_oracle
from tests.support.tables import read_tables

RULES = Rules(heartbeat_ms=5_000)
OPTIONS = ("--heartbeat=5s", "--archive-every=2s", "--rollup-every=2s")
EVENING = {"duration": "33s", "rate": 20, "session_length": "10s", "dirt": 0.2, "file_interval": "1s"}
_TRIES = 3
_FILES_AT_ONCE = 2
_READ_WITHIN_S = 900
_FILES_BEFORE_SLEEP = 20
_LEASE_IS_LOST_S = 120


def play_with_a_kill_in_each_query(job: Job, evening: Evening) -> None:
    """Kill the job in a micro-batch of each query, then let it read the rest of the evening, and stop."""
    for query in QUERIES:
        kill_in_a_micro_batch(job, query, evening)
    job.release(evening)
    job.start()
    job.wait_until_done(within_s=_READ_WITHIN_S)
    assert job.terminate() == 0


def kill_in_a_micro_batch(job: Job, query: str, evening: Evening) -> None:
    """Start the job, and kill it so that it leaves a micro-batch of a query half done."""
    assert any(_leaves_a_micro_batch_half_done(job, query, evening) for _ in range(_TRIES)), f"{query} never does"


def play_with_a_driver_that_sleeps(job: Job, second: Job, evening: Evening) -> None:
    """Stop the job and its engine for longer than its lease, while a second driver works; then wake it up.

    It must notice, write nothing more to the tables, and end. Its engine may still begin a micro-batch in a checkpoint,
    which ends the second driver; the next start goes on.
    """
    job.release(evening, _FILES_BEFORE_SLEEP)
    job.start()
    queries = [job.checkpoints / query for query in QUERIES]
    job.wait_until(lambda: all(last_committed(query) >= 0 for query in queries), "each query has a micro-batch")
    job.wait_for_running_micro_batch()
    os.killpg(job.pid, signal.SIGSTOP)  # in the middle of whatever they do
    with second:
        newest = last_committed(job.checkpoints / "sessionize")
        second.start()
        second.wait_until(
            lambda: last_committed(second.checkpoints / "sessionize") > newest + 1, "the second driver has the lease"
        )
        second.release(evening, _FILES_BEFORE_SLEEP)
        os.killpg(job.pid, signal.SIGCONT)
        assert job.wait_for_end(within_s=_LEASE_IS_LOST_S) == 1, job.output_lines()[-5:]
        second.release(evening)
        _read_to_the_end(second)
    assert any("waiting for sessionize (process" in line for line in second.output_lines())
    assert "lease 'stream'" in job.output_lines()[-1]


def _read_to_the_end(job: Job) -> None:
    """Let a job read everything and stop; start it again once if another driver has written to its checkpoint."""
    try:
        job.wait_until_done()
    except AssertionError:
        if not any("another run has written to this checkpoint" in line for line in job.output_lines()):
            raise
        assert job.wait_for_end(within_s=_LEASE_IS_LOST_S) == 1
        job.start()
        job.wait_until_done()
    assert job.terminate() == 0


def check_every_row(job: Job, spark: SparkSession, groups: int | None = None) -> None:
    """Compare the tables, by a copy, and the state with what follows from the input; `groups` is `--device-groups`."""
    job.pull()
    oracle = build_oracle(job.checkpoints, RULES, groups=groups)
    assert differences_of_job(job, oracle, read_tables(job.warehouse), spark) == []


def _leaves_a_micro_batch_half_done(job: Job, query: str, evening: Evening) -> bool:
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
