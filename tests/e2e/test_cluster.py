"""Two executors, each with a JVM and Python workers of its own: one is killed, then a whole worker with the other."""

from collections import Counter
from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession

from sessionization.core.session_state import Rules
from tests.e2e import checkpoints
from tests.e2e.accounts import unaccounted
from tests.e2e.cluster import Cluster
from tests.e2e.evening import Evening
from tests.e2e.job import Job
from tests.e2e.oracle import Oracle, tell
from tests.e2e.state import entries_and_timers
from tests.e2e.tables import Tables, differences, read_tables

pytestmark = pytest.mark.long

RULES = Rules(heartbeat_ms=5_000)
EVENTS, RATE = 4_000, 20
EVENING = {"rate": RATE, "session_length": "10s", "devices": 8 * RATE, "dirt": 0.2, "file_interval": "2s"}
GROUPS = 8


@dataclass(frozen=True)
class Run:
    """What a job has left behind, what it should have, and what became of its executors."""

    job: Job
    oracle: Oracle
    tables: Tables
    began: set[int]
    after_a_kill: set[int]
    killed: int


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("cluster")
    evening = Evening(folder / "staging", events=EVENTS, **EVENING)
    job = Job(folder, "--heartbeat=5s", f"--device-groups={GROUPS}")
    sessionize = job.checkpoints / "sessionize"

    def in_a_micro_batch() -> None:
        """Wait until one is begun and not done: at least one more than now, so that executors have state to lose."""
        committed = checkpoints.last_committed(sessionize)
        job.wait_until(lambda: checkpoints.last_committed(sessionize) > committed, "a micro-batch is done")
        done = checkpoints.last_committed(sessionize)
        job.wait_until(lambda: checkpoints.last_begun(sessionize) > done, "a micro-batch is begun")

    with Cluster(folder / "machines") as cluster:
        job.conf = cluster.conf
        try:
            evening.release(job.input, len(evening) // 3)
            job.start()
            in_a_micro_batch()
            began = set(cluster.executors())
            killed = cluster.kill_executor()
            evening.release(job.input, len(evening) // 2)
            job.wait_until(lambda: set(cluster.executors()) > began - {killed}, "another executor takes its place")
            in_a_micro_batch()
            after = set(cluster.executors())
            cluster.kill_worker()
            evening.release(job.input, len(evening))
            job.wait_until_done()
            assert job.terminate() == 0
        finally:
            job.kill_if_running()
    oracle = tell(job.checkpoints, RULES, groups=GROUPS)
    return Run(job, oracle, read_tables(job.warehouse), began, after, killed)


def test_tasks_run_on_two_executors_and_one_is_replaced(run: Run) -> None:
    assert len(run.began) == 2
    assert len(run.after_a_kill) == 2
    assert run.killed in run.began - run.after_a_kill


def test_nothing_is_lost_and_nothing_doubled(run: Run, spark: SparkSession) -> None:
    assert differences(run.oracle, run.tables, run.job.checkpoints) == []
    entries, _ = entries_and_timers(spark, run.job.checkpoints)
    pending = [(device_id, session_id) for device_id, session_id, status in entries if status == "pending_end"]
    assert unaccounted(run.tables, pending) == []
    assert Counter(entries) == Counter(run.oracle.entries)
