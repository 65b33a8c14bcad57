"""A second driver on a checkpoint: the lock of a stopped job excludes it, so no driver can wake up and append."""

import os
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.checkpoints import last_committed
from tests.support.harness import OPTIONS, Scene, compare
from tests.support.job import run_to_end

pytestmark = [pytest.mark.job, pytest.mark.long]


def test_a_stopped_job_excludes_a_second_one_and_goes_on_once_it_wakes_up(tmp_path: Path, spark: SparkSession) -> None:
    scene = Scene(3, 0, tmp_path)
    job = scene.job
    folders = (f"--input={job.input}", f"--warehouse={job.warehouse}", f"--checkpoints={job.checkpoints}")
    with job:
        job.start()
        pid = job.pid
        scene.release(4)
        job.wait_until(lambda: last_committed(job.checkpoints / "sessionize") >= 1, "a second micro-batch")
        os.killpg(pid, signal.SIGSTOP)  # the job and its engine, in the middle of whatever they do
        try:
            second = run_to_end(*folders, *OPTIONS, "--mlflow=off", cwd=tmp_path)
        finally:
            os.killpg(pid, signal.SIGCONT)
        scene.play_rest()
        run = scene.stop()
    assert second.code == 2
    assert f"--checkpoints {job.checkpoints} is in use by process {pid} on " in second.lines[-1]
    assert compare(run, spark) == []
