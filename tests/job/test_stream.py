"""The three queries on real files, stopped and started again."""

import gzip
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from sessionization.core.heartbeat_grid import grid_for_key
from sessionization.job import shutdown
from sessionization.job.job_input import take_input
from sessionization.job.queries import Queries
from sessionization.ops.state_reader import StateReader
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.folder import QUERIES, SESSIONIZE, open_checkpoint
from sessionization.spark.checkpoint.pinned_settings import PinnedSettings
from sessionization.spark.checkpoint.take_log import TAKES_FOLDER
from sessionization.spark.input.file_taker import FileTaker
from sessionization.spark.input.source import read_messages
from sessionization.spark.job_context import JobContext
from sessionization.spark.output.progress import BatchProgress, last_engine_progress
from sessionization.spark.tables.creation import create_tables, refuse_missing_tables, take_over
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import QUARANTINE, RAW_EVENTS, SESSION_CHANGES, SESSIONS, Table
from sessionization.spark.warm_start.initial_state import warm_start
from tests.tables.warehouse import empty_tables
from tests.whole_job.delta import read_table

pytestmark = pytest.mark.spark

DEADLINE_S = 300


class Job:
    """A job in its own folder, which a test can start several times."""

    def __init__(self, spark: SparkSession, folder: Path, **settings: object) -> None:
        self.spark = spark
        self.input = folder / "in put [1]"
        self.input.mkdir()
        self.location = TableLocation(folder / "warehouse")
        defaults = {"heartbeat": "1s", "trigger": "200ms", "late_retention": "1s"}
        self.settings = SessionizeSettings(
            input=self.input, warehouse=folder / "warehouse", checkpoints=folder / "checkpoints", **defaults | settings
        )
        self.files = 0
        self.owner: str | None = None

    def change(self, **settings: object) -> None:
        """Use other settings from the next start on."""
        self.settings = SessionizeSettings.model_validate(
            self.settings.model_dump(by_alias=True, exclude_unset=True) | settings
        )

    def send(self, *messages: dict | bytes, stream: str = "pc_sessions") -> None:
        """Deliver one file of messages as a producer should: written hidden, then renamed."""
        folder = self.input / stream
        folder.mkdir(exist_ok=True)
        lines = [message if isinstance(message, bytes) else json.dumps(message).encode() for message in messages]
        hidden = folder / ".next.tmp"
        hidden.write_bytes(b"".join(line + b"\n" for line in lines))
        self.files += 1
        hidden.rename(folder / f"{self.files}.json")

    @contextmanager
    def running(
        self, *names: str, report: Callable[[BatchProgress], None] = lambda _: None
    ) -> Iterator[dict[str, StreamingQuery]]:
        """Run the named queries, by default all three; each occupies a core."""
        settings = self.settings
        checkpoint = open_checkpoint(
            settings.checkpoints,
            PinnedSettings.of(settings, str(self.location)),
            settings.rules,
            warm=settings.from_sessions,
        )
        self.rules = checkpoint.in_force
        is_taking_over = checkpoint.is_warm and not checkpoint.is_used
        if is_taking_over:
            refuse_missing_tables(self.spark, self.location)
        elif not settings.warehouse.exists():
            empty_tables(self.spark, self.location, owner=checkpoint.id)
        context = JobContext(self.spark, settings, checkpoint, self.location)
        initial_state = warm_start(context)
        if is_taking_over:
            checkpoint.save_as_warm()
            take_over(self.spark, self.location, checkpoint.id)
        if self.owner != checkpoint.id:  # a second check of its own tables would take seconds
            create_tables(self.spark, self.location, owner=checkpoint.id, may_create=not checkpoint.is_used)
            self.owner = checkpoint.id
        self.context, self.pipeline = context, (pipeline := Queries(context, lambda _: None, (report,), initial_state))
        with take_input(context):
            try:
                pipeline.start(threading.Event(), names or QUERIES)
                yield pipeline.by_name
            finally:
                pipeline.end_rests()
                for query in pipeline.by_name.values():
                    query.stop()

    def stop(self, queries: dict[str, StreamingQuery]) -> list[str]:
        """Stop as the job does, between two micro-batches where possible; return the lines that it reported."""
        lines: list[str] = []
        self.pipeline.end_rests()
        has_append_since = partial(self.location.has_append_since, self.spark, SESSION_CHANGES)
        assert shutdown.stop_queries(queries, self.settings.checkpoints, has_append_since, lines.append) == []
        return lines

    def rows(self, table: Table, **values: object) -> list[dict[str, Any]]:
        """The rows of a table with these values; read without Spark, which would take a core from the job."""
        rows = read_table(self.settings.warehouse / table.name)
        return [row for row in rows if values.items() <= row.items()]

    def changes(self, **values: object) -> list[dict[str, Any]]:
        return sorted(self.rows(SESSION_CHANGES, **values), key=itemgetter("processed_ms"))

    def beats_under_newest_rules(self) -> list[dict[str, Any]]:
        """The heartbeats of micro-batches that started under the newest rules."""
        return [row for row in self.changes(change="heartbeat") if row["processed_ms"] > self.rules.previous_until_ms]

    def archived(self) -> int:
        return len(self.rows(RAW_EVENTS))

    def count(self, **values: object) -> int:
        return len(self.changes(**values))


def wait_for(condition: Callable[[], bool], awaited: str) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"waited {DEADLINE_S} s for {awaited}"
        time.sleep(0.2)


def message(session_id: int, event: str, device: str = "d1") -> dict:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {"appSessionId": session_id, "eventId": f"ApplicationSession{event}", "hostPcId": device, "timestamp": now}


def state_row_count(query: StreamingQuery) -> int | None:
    """The number of rows and timers in the operator's state, as the engine last reported."""
    last = last_engine_progress(query)
    operators = last["stateOperators"] if last else ()
    return operators[0]["numRowsTotal"] if operators else None


@pytest.mark.long
def test_a_session_survives_restarts_and_leaves_no_state(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path)
    with job.running(SESSIONIZE):
        job.send(message(1, "Start"), b"{broken")
        wait_for(lambda: job.count(change="heartbeat") >= 2, "two heartbeats")

    beats = job.count(change="heartbeat")
    with job.running(SESSIONIZE):
        wait_for(lambda: job.count(change="heartbeat") >= beats + 2, "heartbeats after a restart with no new input")
    rows = job.changes(change="heartbeat")
    assert sum(row["missed_beats"] for row in rows) + len(rows) == rows[-1]["beat"]
    assert len({row["due_ms"] for row in rows}) == len(rows)

    with job.running() as queries:
        job.send(message(1, "EndBi"), stream="pc_sessions")
        wait_for(lambda: job.count(end_reason="reported") == 1, "the end")
        wait_for(lambda: state_row_count(queries[SESSIONIZE]) == 0, "the state to empty")
        wait_for(lambda: len(job.rows(SESSIONS, status="ended")) == 1, "the session's row")
        wait_for(lambda: job.archived() == 3, "all messages in the archive")

    assert StateReader(spark, job.settings.checkpoints).sessions().isEmpty()
    assert job.count(change="started") == 1
    assert [row["reason"] for row in job.rows(QUARANTINE)] == ["malformed_json"]


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


def test_only_input_files_and_lines_that_are_not_blank_are_read(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path)
    nested = job.input / "pc_sessions" / "nested.json"
    nested.mkdir(parents=True)
    (job.input / "pc_sessions" / "date=2026-01-01").mkdir()
    start = json.dumps(message(1, "Start")).encode()
    for name in ("_hidden.json", ".hidden.json", "1.txt", "nested.json/2.json", "date=2026-01-01/3.json"):
        (job.input / "pc_sessions" / name).write_bytes(start + b"\n")
    for name, content in (
        ("a.jsonl", b"1"),
        ("b.ndjson", b"2"),
        ("c.json.gz", gzip.compress(b"3\n")),
        ("d.JSON", b"4"),
    ):
        (job.input / "pc_sessions" / name).write_bytes(content)
    # A file from the year 2200 does not make the others too old, and one from 1980 is read too.
    os.utime(job.input / "pc_sessions" / "a.jsonl", (7_258_118_400,) * 2)
    os.utime(job.input / "pc_sessions" / "b.ndjson", (315_532_800,) * 2)
    job.send(start + b"\r", b"", b"\r", b" \t", b"\xff\xfe", b'{"a":1}\r{"b":2}')
    found: list[tuple[str, bytes]] = []
    days, today = set[date](), datetime.now(UTC).date()

    def collect(batch: DataFrame, _batch_id: int) -> None:
        rows = batch.select("stream", "value", "ingest_date").collect()
        found.extend((row.stream, bytes(row.value)) for row in rows)
        days.update(row.ingest_date for row in rows)

    (job.settings.checkpoints / TAKES_FOLDER).mkdir(parents=True)
    messages = read_messages(spark, job.settings, 0, None)
    query = messages.writeStream.foreachBatch(collect).option("checkpointLocation", str(tmp_path / "query")).start()
    try:
        with FileTaker(job.input, job.settings.checkpoints / TAKES_FOLDER, 2).running(200):
            wait_for(lambda: len(found) >= 6, "the first messages")
            job.send(b"{}", stream="console_sessions")
            wait_for(lambda: len(found) >= 7, "the stream whose folder came later")
        query.processAllAvailable()
    finally:
        query.stop()
    pc_values = (b"\xff\xfe", b'{"a":1}\r{"b":2}', start, b"1", b"2", b"3")
    assert days <= {today, datetime.now(UTC).date()}, "the job's own clock, whatever the files' times"
    assert sorted(found) == sorted([("console_sessions", b"{}"), *(("pc_sessions", value) for value in pc_values)])


@pytest.mark.long
def test_devices_with_the_same_session_id_stay_separate_in_device_groups(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path, device_groups=4)
    with job.running(SESSIONIZE):
        job.send(*(message(1, "Start", f"d{number}") for number in range(20)))
        wait_for(lambda: job.count(change="heartbeat") >= 40, "heartbeats of all twenty devices")
    assert len({row["device_id"] for row in job.changes(change="heartbeat")}) == 20
    assert job.count(change="started") == 20
