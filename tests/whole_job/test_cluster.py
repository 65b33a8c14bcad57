"""A job that spark-submit sends to two workers, which share nothing but the storage of its folders.

One executor is killed, then the driver, then a whole worker with its executor.
"""

import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.checkpoints import last_committed, last_started
from tests.support.cluster import CONF, Cluster
from tests.support.evening import ENDS_MS, Evening
from tests.support.hdfs import Hdfs
from tests.support.job import ENTRY, ROOT, Job
from tests.support.remote_job import RemoteJob
from tests.support.s3 import PYTHON, S3
from tests.support.three_kills import check_every_row

pytestmark = [pytest.mark.job, pytest.mark.long]

RATE = 20
EVENING = {
    "events": 2_000,
    "rate": RATE,
    "session_length": "10s",
    "devices": 8 * RATE,
    "dirt": 0.2,
    "file_interval": "2s",
}
GROUPS = 8
OPTIONS = ("--heartbeat=5s", f"--device-groups={GROUPS}")
CHECKS = ("storage", "input", "tables", "lease", "stream")
_PREFLIGHT_S = 300
_TRIES = 3
STORAGES = [
    "folder",
    "hdfs",
    pytest.param("s3", marks=pytest.mark.skipif(not PYTHON.exists(), reason="needs make .venv/.s3")),
]


def job_on(name: str, spark: SparkSession, folder: Path, cluster: Cluster, daemons: ExitStack) -> Job:
    """A job for the cluster, with its folders on this storage, which is started."""
    job: Job
    if name == "folder":
        job = Job(folder, *OPTIONS)
        job.submit_options, job.conf = cluster.submit_options(), CONF
    elif name == "hdfs":
        job = RemoteJob(spark, folder, daemons.enter_context(Hdfs(folder / "hdfs")), *OPTIONS)
        job.submit_options, job.conf = cluster.submit_options(), CONF
    else:
        s3 = daemons.enter_context(S3(folder / "s3"))
        s3.let_reach(spark)
        job = RemoteJob(spark, folder, s3, *OPTIONS)
        job.submit_options = cluster.submit_options("s3")
        job.conf = {name: value for name, value in s3.settings().items() if name != "spark.jars"} | CONF
    daemons.callback(job.kill_if_running)
    return job


def check_preflight(job: Job, *, is_on_s3: bool) -> None:
    """Run the preflight with the job's options: it finds the place fit, and says what S3 does not promise."""
    job.entry = (ROOT / "jobs" / "preflight.py",)
    job.start()
    assert job.wait_for_end(within_s=_PREFLIGHT_S) == 0, job.output_lines()[-5:]
    job.entry = (ENTRY,)
    lines = job.output_lines()
    warnings = [line for line in lines if line.startswith("warning")]
    assert all(line.startswith("warning  lease: on S3 the log store") for line in warnings)
    assert bool(warnings) is is_on_s3
    assert all(any(line.startswith(f"ok       {check}:") for line in lines) for check in CHECKS)


def interrupts_a_micro_batch(job: Job) -> bool:
    """Kill the driver; if that is between two micro-batches, start it and kill it again."""
    query = job.checkpoints / "sessionize"
    for attempt in range(_TRIES):
        if attempt:
            job.start()
        job.wait_for_running_micro_batch()
        job.kill()
        job.look()
        if last_started(query) > last_committed(query):
            return True
    return False


@pytest.mark.parametrize("name", STORAGES)
def test_a_job_whose_executor_driver_and_worker_are_killed_loses_and_doubles_nothing(
    name: str, tmp_path: Path, spark: SparkSession
) -> None:
    # S3 takes no modification time: the messages are as old as the files that hold them.
    evening = Evening(tmp_path / "staging", time.time_ns() // 1_000_000 if name == "s3" else ENDS_MS, **EVENING)
    third = len(evening) // 3
    with ExitStack() as daemons:
        cluster = daemons.enter_context(Cluster(tmp_path / "machines"))
        job = job_on(name, spark, tmp_path, cluster, daemons)
        job.release(evening, third)
        check_preflight(job, is_on_s3=name == "s3")
        job.start()
        job.wait_for_running_micro_batch()  # the executors have state to lose
        executors = set(cluster.executors())
        assert len(executors) == 2
        killed = cluster.kill_executor()
        assert killed in executors
        job.release(evening, third // 2)
        job.wait_until(lambda: set(cluster.executors()) > executors - {killed}, "another executor takes its place")
        assert len(set(cluster.executors()) - {killed}) == 2
        assert interrupts_a_micro_batch(job)
        job.release(evening, third // 2)
        job.start()
        job.wait_for_running_micro_batch()
        job.wait_until(lambda: len(cluster.executors()) == len(executors), "each worker has an executor")
        assert cluster.kill_worker(), "it had an executor"
        job.release(evening)
        job.wait_until_done()
        assert job.terminate() == 0
        check_every_row(job, spark, GROUPS)
