"""A job that starts again with other rules, after a micro-batch that failed."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.core.heartbeat_grid import grid_for_key
from sessionization.spark.checkpoint.folder import SESSIONIZE
from sessionization.spark.tables.schemas import SESSION_CHANGES
from tests.support.stream_job import Job, message
from tests.support.waiting import wait_for

pytestmark = pytest.mark.spark


def test_changed_rules_take_effect_at_a_restart_after_a_micro_batch_that_failed(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = Job(spark, tmp_path, session_timeout="1h", late_retention="1h")
    changes = job.location.sql_name(SESSION_CHANGES.name)
    with job.running(SESSIONIZE) as queries:
        spark.sql(f"ALTER TABLE {changes} ADD CONSTRAINT no_d5 CHECK (device_id != 'd5')")
        job.send(message(1, "Start", "d1"), message(2, "EndBi", "d2"))
        wait_for(lambda: job.count(change="heartbeat") >= 1, "a heartbeat")
        job.send(message(5, "Start", "d5"))
        wait_for(lambda: not queries[SESSIONIZE].isActive, "the query to fail")
        assert "no_d5" in str(queries[SESSIONIZE].exception())
    assert job.count(change="ended") == 0
    spark.sql(f"ALTER TABLE {changes} DROP CONSTRAINT no_d5")

    job.change(heartbeat="700ms")
    with job.running(SESSIONIZE):
        wait_for(lambda: job.count(change="started", device_id="d5") == 1, "the event of the failed micro-batch")
        wait_for(lambda: len(job.beats_under_newest_rules()) >= 2, "heartbeats on the new grid")
    # A timer that was set before the change still fires once, at its own instant; its beat is on the new grid.
    off_the_grid = [
        row
        for row in job.beats_under_newest_rules()
        if grid_for_key(row["device_id"], 700).at_or_before(row["due_ms"]) != row["due_ms"]
    ]
    assert off_the_grid == []

    job.change(session_timeout="4s", late_retention="1s")
    with job.running(SESSIONIZE):
        # The earlier End still has its former timer, unless its device sends an event.
        job.send(message(3, "Start", "d3"), message(4, "EndBi", "d4"))
        wait_for(lambda: job.count(end_reason="orphaned") == 1, "the new End to be given up")
        wait_for(lambda: job.count(end_reason="timed_out") == 3, "all sessions to time out")
    [orphan] = job.changes(end_reason="orphaned")
    assert orphan["device_id"] == "d4"
    for row in job.changes(end_reason="timed_out"):
        assert row["ended_ms"] - row["started_ms"] == 4_000
