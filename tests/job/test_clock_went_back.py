"""The clock of the next micro-batch lies before that of the newest one: the job goes on and says so."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.job.summary import ClockCheck
from sessionization.spark.checkpoint.folder import SESSIONIZE
from sessionization.spark.checkpoint.spark_logs import newest_committed_batch, newest_started_batch
from tests.support.in_process import job_running
from tests.support.stream_job import Job, message

AHEAD_MS = 20 * 60_000


def test_a_step_back_of_more_than_a_heartbeat_is_said_once() -> None:
    lines: list[str] = []
    clock = ClockCheck(30_000, lines.append)
    for ahead_ms in (None, -5_000, 20_000):
        clock.check(None if ahead_ms is None else wall_clock_ms() + ahead_ms)
    assert lines == []
    for ahead_ms in (90_500, 80_000, None, 40_000):
        clock.check(None if ahead_ms is None else wall_clock_ms() + ahead_ms)
    assert len(lines) == 1
    assert "went back by 90 s" in lines[0]
    clock.check(wall_clock_ms())
    clock.check(wall_clock_ms() + 60_500)
    assert "went back by 60 s" in lines[1]


def start_batch_ahead(query: Path) -> int:
    """Write a started micro-batch whose clock is ahead; return that clock."""
    newest = newest_started_batch(query)
    ahead_id = newest + (newest_committed_batch(query) == newest)
    version, metadata, *offsets = (query / "offsets" / str(newest)).read_text(encoding="utf-8").split("\n")
    ahead = json.loads(metadata)
    ahead["batchTimestampMs"] += AHEAD_MS
    file = query / "offsets" / str(ahead_id)
    file.write_text("\n".join((version, json.dumps(ahead), *offsets)), encoding="utf-8")
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    return int(ahead["batchTimestampMs"])


@pytest.mark.spark
@pytest.mark.long
def test_a_job_whose_clock_went_back_goes_on_and_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path, trigger="500ms", mlflow="off")
    job.send(message(1, "Start", "old"))
    with job_running(job.settings) as running:
        running.wait_for(lambda: job.count(change="heartbeat") > 0, "a heartbeat")
    ahead_ms = start_batch_ahead(job.settings.state.checkpoints / SESSIONIZE)
    with job_running(job.settings) as running:
        job.send(message(2, "Start", "new"))
        running.wait_for(lambda: job.count(change="heartbeat", device_id="new") > 1, "the new session beats")
        job.send(message(1, "EndBi", "old"))
        running.wait_for(lambda: job.count(change="ended") == 1, "the End of the old session")
    assert sum("the clock went back by" in line for line in running.lines) == 1
    [ended] = job.changes(change="ended")
    assert (ended["device_id"], ended["end_reason"]) == ("old", "reported")
    assert ended["processed_ms"] < ahead_ms
    assert job.count(change="started") == 2
    beats = [(row["device_id"], row["due_ms"]) for row in job.changes(change="heartbeat")]
    assert len(beats) == len(set(beats))
