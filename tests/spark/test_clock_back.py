"""A clock that was ahead and is put right under the whole job, in this process; tests/faults/test_clock.py kills it as well."""

from pathlib import Path

from pyspark.sql import SparkSession

from sessionization.spark.checkpoint import SESSIONIZE
from tests.e2e.checkpoints import batches_of
from tests.faults.test_clock import begin_ahead
from tests.spark.in_process import job_running
from tests.spark.test_stream import Job, message, wait_for

HEARTBEAT_MS = 3_000
OLD = ("d1", "d2", "d3", "d4")


def test_all_beat_again_after_the_clock_went_back(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path, device_groups=3, heartbeat=f"{HEARTBEAT_MS}ms", trigger="500ms", mlflow="off")
    query = job.settings.checkpoints / SESSIONIZE

    def beating(from_ms: int = 0, before_ms: int = 2**62) -> set[object]:
        beats = job.changes(change="heartbeat")
        return {row["device_id"] for row in beats if from_ms <= row["processed_ms"] < before_ms}

    job.send(*(message(1, "Start", device) for device in OLD))
    with job_running(job.settings):
        wait_for(lambda: beating() == set(OLD), "all beat")
    ahead_ms = begin_ahead(query)
    with job_running(job.settings) as said:
        wait_for(lambda: batches_of(query)[-1].clock_ms < ahead_ms, "the clock is right again")
        right_ms = next(batch.clock_ms for batch in batches_of(query)[::-1] if batch.clock_ms < ahead_ms)
        job.send(message(1, "Start", "new"))
        wait_for(lambda: beating(right_ms, ahead_ms) == {*OLD, "new"}, "all beat again")
    assert sum("the clock went back by" in line for line in said) == 1
    again = [row for row in job.changes(change="heartbeat") if right_ms <= row["processed_ms"] < ahead_ms]
    assert len({(row["device_id"], row["due_ms"]) for row in again}) == len(again)
    assert job.count(change="started") == len(OLD) + 1
