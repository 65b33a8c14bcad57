"""The clock goes back under the whole job, in this process; tests/faults/test_clock.py also kills the job."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.spark.checkpoint.folder import SESSIONIZE
from sessionization.spark.checkpoint.spark_logs import newest_started_batch, read_started_batch
from tests.faults.test_clock import start_batch_ahead
from tests.job.in_process import job_running
from tests.job.test_stream import Job, message
from tests.whole_job.state import entries_and_timers

pytestmark = [pytest.mark.spark, pytest.mark.long]

HEARTBEAT_MS = 3_000
FIRST_DEVICES = ("d1", "d2", "d3", "d4")


def test_all_sessions_beat_again_after_the_clock_went_back(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path, device_groups=3, heartbeat=f"{HEARTBEAT_MS}ms", trigger="500ms", mlflow="off")
    query = job.settings.checkpoints / SESSIONIZE

    def devices_with_beats(from_ms: int = 0, before_ms: int = 2**62) -> set[object]:
        beats = job.changes(change="heartbeat")
        return {row["device_id"] for row in beats if from_ms <= row["processed_ms"] < before_ms}

    def clock_ms() -> int:
        return read_started_batch(query, newest_started_batch(query)).clock_ms

    job.send(*(message(1, "Start", device) for device in FIRST_DEVICES))
    with job_running(job.settings) as running:
        running.wait_for(lambda: devices_with_beats() == set(FIRST_DEVICES), "all beat")
    ahead_ms = start_batch_ahead(query)
    with job_running(job.settings) as running:
        running.wait_for(lambda: clock_ms() < ahead_ms, "the clock is right again")
        right_ms = clock_ms()
        job.send(message(1, "Start", "new"))
        running.wait_for(lambda: devices_with_beats(right_ms, ahead_ms) == {*FIRST_DEVICES, "new"}, "all beat again")
    assert sum("the clock went back by" in line for line in running.lines) == 1
    later_beats = [row for row in job.changes(change="heartbeat") if right_ms <= row["processed_ms"] < ahead_ms]
    assert len({(row["device_id"], row["due_ms"]) for row in later_beats}) == len(later_beats)
    assert (job.count(change="started"), job.count(change="ended")) == (len(FIRST_DEVICES) + 1, 0)
    _, timers = entries_and_timers(spark, job.settings.checkpoints)
    assert len(timers) == len({key for key, _ in timers})
    assert max(timer_ms for _, timer_ms in timers) < ahead_ms
