"""A job that starts again: after its clock went back, with other rules after a failure, with a shorter log."""

import json
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.core.heartbeat_grid import grid_for_key
from sessionization.job import queries as job_queries
from sessionization.job.summary import ClockCheck
from sessionization.spark.checkpoint import take_log
from sessionization.spark.checkpoint.file_source_log import log_bytes
from sessionization.spark.checkpoint.folder import ARCHIVE, SESSIONIZE
from sessionization.spark.checkpoint.spark_logs import newest_committed_batch, newest_started_batch
from sessionization.spark.checkpoint.take_log import TAKES_FOLDER
from sessionization.spark.input import file_taker
from sessionization.spark.tables.schemas import RAW_EVENTS, SESSION_CHANGES
from tests.support.in_process import job_running
from tests.support.stream_job import Job, message
from tests.support.waiting import wait_for

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


@pytest.mark.spark
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


FILES = 6


@pytest.mark.spark
@pytest.mark.long
def test_a_query_forgets_merged_takes_and_reads_each_file_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(take_log, "_MANY_TAKES", 1)
    monkeypatch.setattr(file_taker, "_MERGE_EVERY_S", 0)
    monkeypatch.setattr(job_queries, "LARGE_LOG_BYTES", 0)
    spark.conf.set("spark.sql.streaming.fileSource.log.compactInterval", "3")
    job, lines = Job(spark, tmp_path), list[str]()
    archive = job.settings.state.checkpoints / ARCHIVE
    takes = job.settings.state.checkpoints / TAKES_FOLDER
    try:
        with job.running(SESSIONIZE, ARCHIVE) as queries:
            for number in range(FILES):
                job.send(message(number, "Start"))
                wait_for(lambda number=number: job.archived() == number + 1, "the archive")
            wait_for(lambda: take_log.take_numbers(takes)[0] > 2, "the deletion of merged takes")
            wait_for(lambda: log_bytes(archive) > 0, "a compacted log")
            before, run_id = log_bytes(archive), queries[ARCHIVE].runId
            job.pipeline._context = replace(job.context, say=lines.append)
            job.pipeline.shorten_logs(threading.Event())
            assert queries[ARCHIVE].runId != run_id
            assert any("query archive has started again; its log of files has" in line for line in lines)
            assert log_bytes(archive) < before
            job.send(message(FILES, "Start"))
            wait_for(lambda: job.archived() == FILES + 1, "a new file")
    finally:
        spark.conf.unset("spark.sql.streaming.fileSource.log.compactInterval")
    read = Counter(row["file"].rpartition("/")[2] for row in job.rows(RAW_EVENTS))
    assert read == Counter(f"{number}.json" for number in range(1, FILES + 2))
