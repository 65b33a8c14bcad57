"""A job that spark-submit sends to two workers, which share nothing but the storage of its folders.

One executor is killed, then the driver, then a whole worker with its executor.
"""

from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.cluster import CONF, Cluster
from tests.support.job import ENTRY, ROOT
from tests.support.s3 import PYTHON
from tests.support.storages import check_preflight, evening_of, job_on
from tests.support.three_kills import check_every_row, kill_in_a_micro_batch

pytestmark = [pytest.mark.job, pytest.mark.long]

RATE = 20
EVENING = {
    "duration": "100s",
    "rate": RATE,
    "session_length": "10s",
    "devices": 8 * RATE,
    "dirt": 0.2,
    "file_interval": "2s",
}
GROUPS = 8
OPTIONS = ("--heartbeat=5s", f"--device-groups={GROUPS}")
_PREFLIGHT_S = 300
STORAGES = [
    "folder",
    "hdfs",
    pytest.param("s3", marks=pytest.mark.skipif(not PYTHON.exists(), reason="needs make .venv/.s3")),
]


@pytest.mark.parametrize("name", STORAGES)
def test_a_job_whose_executor_driver_and_worker_are_killed_loses_and_doubles_nothing(
    name: str, tmp_path: Path, spark: SparkSession
) -> None:
    with ExitStack() as daemons:
        cluster = daemons.enter_context(Cluster(tmp_path / "machines"))
        job = job_on(name, spark, tmp_path, daemons, *OPTIONS)
        job.submit_options = cluster.submit_options(*(["s3"] if name == "s3" else []))
        job.conf = {key: value for key, value in job.conf.items() if key != "spark.jars"} | CONF
        evening = evening_of(job, tmp_path, **EVENING)
        third = len(evening) // 3
        job.release(evening, third)
        job.entry = (ROOT / "jobs" / "preflight.py",)
        job.start()
        assert job.wait_for_end(within_s=_PREFLIGHT_S) == 0, job.output_lines()[-5:]
        check_preflight(job, job.output_lines())
        job.entry = (ENTRY,)
        job.start()
        job.wait_for_running_micro_batch()  # the executors have state to lose
        executors = set(cluster.executors())
        assert len(executors) == 2
        killed = cluster.kill_executor()
        assert killed in executors
        job.release(evening, third // 2)
        job.wait_until(lambda: set(cluster.executors()) > executors - {killed}, "another executor takes its place")
        assert len(set(cluster.executors()) - {killed}) == 2
        job.kill()
        kill_in_a_micro_batch(job, "sessionize", evening)
        job.release(evening, third // 2)
        job.start()
        job.wait_for_running_micro_batch()
        job.wait_until(lambda: len(cluster.executors()) == len(executors), "each worker has an executor")
        assert cluster.kill_worker(), "it had an executor"
        job.release(evening)
        job.wait_until_done()
        assert job.terminate() == 0
        check_every_row(job, spark, GROUPS)
