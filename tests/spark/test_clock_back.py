"""A clock that was ahead under the whole job, in this process; tests/faults/test_clock.py kills the job as well."""

from pathlib import Path

from pyspark.sql import SparkSession

from sessionization.spark.checkpoint.folder import SESSIONIZE
from sessionization.spark.checkpoint.spark_logs import newest_started_batch, read_started_batch
from tests.e2e.state import entries_and_timers
from tests.faults.test_clock import begin_ahead
from tests.spark.in_process import job_running
from tests.spark.test_stream import Job, message

HEARTBEAT_MS = 3_000
OLD = ("d1", "d2", "d3", "d4")


def test_all_beat_again_after_the_clock_went_back(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path, device_groups=3, heartbeat=f"{HEARTBEAT_MS}ms", trigger="500ms", mlflow="off")
    query = job.settings.checkpoints / SESSIONIZE

    def beating(from_ms: int = 0, before_ms: int = 2**62) -> set[object]:
        beats = job.changes(change="heartbeat")
        return {row["device_id"] for row in beats if from_ms <= row["processed_ms"] < before_ms}

    def clock_ms() -> int:
        return read_started_batch(query, newest_started_batch(query)).clock_ms

    job.send(*(message(1, "Start", device) for device in OLD))
    with job_running(job.settings) as running:
        running.wait_for(lambda: beating() == set(OLD), "all beat")
    ahead_ms = begin_ahead(query)
    with job_running(job.settings) as running:
        running.wait_for(lambda: clock_ms() < ahead_ms, "the clock is right again")
        right_ms = clock_ms()
        job.send(message(1, "Start", "new"))
        running.wait_for(lambda: beating(right_ms, ahead_ms) == {*OLD, "new"}, "all beat again")
    assert sum("the clock went back by" in line for line in running.said) == 1
    again = [row for row in job.changes(change="heartbeat") if right_ms <= row["processed_ms"] < ahead_ms]
    assert len({(row["device_id"], row["due_ms"]) for row in again}) == len(again)
    assert (job.count(change="started"), job.count(change="ended")) == (len(OLD) + 1, 0)
    _, timers = entries_and_timers(spark, job.settings.checkpoints)
    assert len(timers) == len({key for key, _ in timers})
    assert max(timer_ms for _, timer_ms in timers) < ahead_ms
