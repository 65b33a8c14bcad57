"""A job that spark-submit sends to a cluster of two executors: one is killed, then a whole worker with the other."""

from collections import Counter
from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession

from sessionization.core.session_state import Rules
from tests.whole_job.accounts import unaccounted
from tests.whole_job.cluster import Cluster
from tests.whole_job.evening import Evening
from tests.whole_job.job import Job
from tests.whole_job.oracle import Oracle, build_oracle
from tests.whole_job.state import entries_and_timers
from tests.whole_job.tables import Tables, differences, read_tables

pytestmark = [pytest.mark.job, pytest.mark.long]

RULES = Rules(heartbeat_ms=5_000)
EVENTS, RATE = 4_000, 20
EVENING = {"rate": RATE, "session_length": "10s", "devices": 8 * RATE, "dirt": 0.2, "file_interval": "2s"}
GROUPS = 8


@dataclass(frozen=True)
class Run:
    """The tables of a job, the oracle's, and the executors before and after a kill."""

    job: Job
    oracle: Oracle
    tables: Tables
    executors_before: set[int]
    executors_after: set[int]
    killed: int


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("cluster")
    evening = Evening(folder / "staging", events=EVENTS, **EVENING)
    job = Job(folder, "--heartbeat=5s", f"--device-groups={GROUPS}")

    with Cluster(folder / "machines") as cluster:
        job.submit_options = cluster.submit_options
        job.conf = {"spark.sql.shuffle.partitions": "2", "spark.log.level": "WARN"}
        try:
            evening.release(job.input, len(evening) // 3)
            job.start()
            job.wait_for_running_micro_batch()  # the executors have state to lose
            executors_before = set(cluster.executors())
            killed = cluster.kill_executor()
            evening.release(job.input, len(evening) // 2)
            job.wait_until(
                lambda: set(cluster.executors()) > executors_before - {killed}, "another executor takes its place"
            )
            job.wait_for_running_micro_batch()
            executors_after = set(cluster.executors())
            cluster.kill_worker()
            evening.release(job.input, len(evening))
            job.wait_until_done()
            assert job.terminate() == 0
        finally:
            job.kill_if_running()
    oracle = build_oracle(job.checkpoints, RULES, groups=GROUPS)
    return Run(job, oracle, read_tables(job.warehouse), executors_before, executors_after, killed)


def test_two_executors_run_and_a_killed_one_is_replaced(run: Run) -> None:
    assert len(run.executors_before) == 2
    assert len(run.executors_after) == 2
    assert run.killed in run.executors_before - run.executors_after


def test_no_row_is_lost_or_doubled(run: Run, spark: SparkSession) -> None:
    assert differences(run.oracle, run.tables, run.job.checkpoints) == []
    entries, _ = entries_and_timers(spark, run.job.checkpoints)
    pending = [(device_id, session_id) for device_id, session_id, status in entries if status == "pending_end"]
    assert unaccounted(run.tables, pending) == []
    assert Counter(entries) == Counter(run.oracle.entries)
