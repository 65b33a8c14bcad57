"""A job that spark-submit sends to two workers, which share nothing but the storage of its folders.

One executor is killed, then the driver, then a whole worker with its executor.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Run:
    """A job that has stopped, its storage still there, what its preflight said, and the executors around a kill."""

    job: Job
    preflight: list[str]
    storage: Hdfs | S3 | None
    executors_before: set[int]
    executors_after: set[int]
    killed: int
    interrupted: bool
    """Whether the driver's kill came within a micro-batch."""
    lost_with_worker: list[int]


def job_on(name: str, folder: Path, cluster: Cluster, daemons: ExitStack) -> tuple[Job, Hdfs | S3 | None]:
    """A job for the cluster, with its folders on this storage, which is started."""
    if name == "s3":
        s3 = daemons.enter_context(S3(folder / "s3"))
        job, storage = RemoteJob(folder, s3, *OPTIONS), s3
        job.submit_options = cluster.submit_options("s3")
        job.conf = {name: value for name, value in s3.settings().items() if name != "spark.jars"} | CONF
    else:
        storage = daemons.enter_context(Hdfs(folder / "hdfs")) if name == "hdfs" else None
        job = Job(folder, *OPTIONS) if storage is None else RemoteJob(folder, storage, *OPTIONS)
        job.submit_options, job.conf = cluster.submit_options(), CONF
    daemons.callback(job.kill_if_running)
    return job, storage


def lines_of_preflight(job: Job) -> list[str]:
    """Run the preflight with the job's options, and return what it said."""
    job.entry = (ROOT / "jobs" / "preflight.py",)
    job.start()
    assert job.wait_for_end(within_s=_PREFLIGHT_S) == 0, job.output_lines()[-5:]
    job.entry = (ENTRY,)
    return job.output_lines()


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


@pytest.fixture(scope="module", params=STORAGES)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("cluster")
    # S3 takes no modification time: the messages are as old as the files that hold them.
    evening = Evening(folder / "staging", time.time_ns() // 1_000_000 if request.param == "s3" else ENDS_MS, **EVENING)
    third = len(evening) // 3
    with ExitStack() as daemons:
        cluster = daemons.enter_context(Cluster(folder / "machines"))
        job, storage = job_on(request.param, folder, cluster, daemons)
        job.release(evening, third)
        preflight = lines_of_preflight(job)
        job.start()
        job.wait_for_running_micro_batch()  # the executors have state to lose
        executors_before = set(cluster.executors())
        killed = cluster.kill_executor()
        job.release(evening, third // 2)
        job.wait_until(
            lambda: set(cluster.executors()) > executors_before - {killed}, "another executor takes its place"
        )
        executors_after = set(cluster.executors())
        interrupted = interrupts_a_micro_batch(job)
        job.release(evening, third // 2)
        job.start()
        job.wait_for_running_micro_batch()
        job.wait_until(lambda: len(cluster.executors()) == len(executors_before), "each worker has an executor")
        lost = cluster.kill_worker()
        job.release(evening)
        job.wait_until_done()
        assert job.terminate() == 0
        yield Run(job, preflight, storage, executors_before, executors_after, killed, interrupted, lost)


def test_the_preflight_finds_the_place_fit(run: Run) -> None:
    warnings = [line for line in run.preflight if line.startswith("warning")]
    if isinstance(run.storage, S3):
        assert [line for line in warnings if not line.startswith("warning  lease: on S3 the log store")] == []
        assert warnings
    else:
        assert warnings == []
    assert all(any(line.startswith(f"ok       {check}:") for line in run.preflight) for check in CHECKS)


def test_two_executors_run_and_a_killed_one_is_replaced(run: Run) -> None:
    assert len(run.executors_before) == 2
    assert len(run.executors_after) == 2
    assert run.killed in run.executors_before - run.executors_after


def test_the_drivers_kill_interrupts_a_micro_batch(run: Run) -> None:
    assert run.interrupted


def test_the_killed_worker_had_an_executor(run: Run) -> None:
    assert run.lost_with_worker


def test_no_row_is_lost_or_doubled(run: Run, spark: SparkSession) -> None:
    if isinstance(run.storage, S3):
        run.storage.let_reach(spark)
    check_every_row(run.job, spark, GROUPS)
