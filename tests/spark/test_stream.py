"""The three queries on real files, stopped and started again."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming import StreamingQuery

from sessionization.core.grid import grid_of
from sessionization.settings import SessionizeSettings
from sessionization.spark import pipeline, supervise
from sessionization.spark.checkpoint import SESSIONIZE, open_checkpoint
from sessionization.spark.fixed import Fixed
from sessionization.spark.progress import Progress
from sessionization.spark.table_home import TableHome, create_tables, refuse_missing, take_over
from sessionization.spark.tables import QUARANTINE, RAW_EVENTS, SESSION_CHANGES, SESSIONS
from sessionization.spark.warm_start import warm_start

DEADLINE_S = 300


class Job:
    """A job in a folder of its own, that can be started again and again."""

    def __init__(self, spark: SparkSession, folder: Path, **settings: object) -> None:
        self.spark = spark
        self.input = folder / "in put [1]"
        self.input.mkdir()
        self.home = TableHome(folder / "warehouse")
        defaults = {"heartbeat": "1s", "trigger": "200ms", "late_retention": "1s"}
        self.settings = SessionizeSettings(
            input=self.input, warehouse=folder / "warehouse", checkpoints=folder / "checkpoints", **defaults | settings
        )
        self.files = 0

    def change(self, **settings: object) -> None:
        """Other settings from the next start on."""
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
    def running(self, report: Callable[[Progress], None] = lambda _: None) -> Iterator[dict[str, StreamingQuery]]:
        settings = self.settings
        checkpoint = open_checkpoint(
            settings.checkpoints, Fixed.of(settings, str(self.home)), settings.rules, warm=settings.from_sessions
        )
        self.rules = checkpoint.in_force
        is_taking_over = checkpoint.is_warm and not checkpoint.is_used
        if is_taking_over:
            refuse_missing(self.spark, self.home)
        before = warm_start(self.spark, settings, checkpoint, self.home)
        if is_taking_over:
            checkpoint.keep_warm()
            take_over(self.spark, self.home, checkpoint.id)
        create_tables(self.spark, self.home, owner=checkpoint.id, may_create=not checkpoint.is_used)
        nobody = lambda _: None  # noqa: E731
        queries, _ = pipeline.start(
            self.spark, settings, checkpoint, self.home, nobody, report, threading.Event(), before
        )
        try:
            yield queries
        finally:
            for query in queries.values():
                query.stop()

    def stop(self, queries: dict[str, StreamingQuery]) -> list[str]:
        """Stop as the job does, between two micro-batches where it can; returns what it said."""
        said: list[str] = []
        is_appended_since = partial(self.home.is_appended_since, self.spark, SESSION_CHANGES)
        assert supervise.stop(queries, self.settings.checkpoints, is_appended_since, said.append) == []
        return said

    def changes(self, where: str = "true") -> list[Row]:
        return self.home.read(self.spark.read, SESSION_CHANGES).where(where).orderBy("processed_at").collect()

    def beats_under_the_rules(self) -> list[Row]:
        """The heartbeats of micro-batches that were begun under the newest rules."""
        beats = self.changes("change = 'heartbeat'")
        return [row for row in beats if _ms(row.processed_at) > self.rules.previous_until_ms]

    def archived(self) -> int:
        return self.home.read(self.spark.read, RAW_EVENTS).count()

    def count(self, where: str = "true") -> int:
        return self.home.read(self.spark.read, SESSION_CHANGES).where(where).count()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"waited {DEADLINE_S} s for {what}"
        time.sleep(0.2)


def message(session_id: int, event: str, device: str = "d1") -> dict:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {"appSessionId": session_id, "eventId": f"ApplicationSession{event}", "hostPcId": device, "timestamp": now}


def operator_state(spark: SparkSession, query: StreamingQuery, checkpoints: Path) -> int:
    return (
        spark.read.format("statestore").option("stateVarName", "sessions").load(str(checkpoints / SESSIONIZE)).count()
    )


def test_a_session_lives_through_restarts_and_leaves_no_state(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path)
    with job.running():
        job.send(message(1, "Start"), b"{broken")
        wait_for(lambda: job.count("change = 'heartbeat'") >= 2, "two heartbeats")

    beats = job.count("change = 'heartbeat'")
    with job.running():
        wait_for(lambda: job.count("change = 'heartbeat'") >= beats + 2, "heartbeats after a restart with no new input")
    rows = job.changes("change = 'heartbeat'")
    assert sum(row.missed_beats for row in rows) + len(rows) == rows[-1].beat
    assert len({row.due_at for row in rows}) == len(rows)

    with job.running() as queries:
        job.send(message(1, "EndBi"), stream="pc_sessions")
        wait_for(lambda: job.count("end_reason = 'reported'") == 1, "the end")
        checkpoints = job.settings.checkpoints
        wait_for(lambda: operator_state(spark, queries[SESSIONIZE], checkpoints) == 0, "the state to empty")
        sessions = job.home.read(spark.read, SESSIONS)
        wait_for(lambda: sessions.where("status = 'ended'").count() == 1, "the session's row")
        wait_for(lambda: job.archived() == 3, "all messages in the archive")

    assert job.count("change = 'started'") == 1
    assert [row.reason for row in job.home.read(spark.read, QUARANTINE).collect()] == ["malformed_json"]


def test_changed_rules_take_effect_at_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path, session_timeout="1h", late_retention="1h")
    with job.running():
        job.send(message(1, "Start", "d1"), message(2, "EndBi", "d2"))
        wait_for(lambda: job.count("change = 'heartbeat'") >= 1, "a heartbeat")
        wait_for(lambda: job.archived() == 2, "the archive")
    assert job.count("change = 'ended'") == 0

    job.change(heartbeat="700ms")
    with job.running():
        wait_for(lambda: len(job.beats_under_the_rules()) >= 2, "heartbeats on the new grid")
    grid = grid_of("d1", 700)
    # A timer that was set before the change still fires at its own instant, once; its beat is one of the new grid.
    assert [row for row in job.beats_under_the_rules() if grid.at_or_before(_ms(row.due_at)) != _ms(row.due_at)] == []

    job.change(session_timeout="4s", late_retention="1s")
    with job.running():
        # The End from before keeps the timer that was set for it, unless its device says something.
        job.send(message(3, "Start", "d3"), message(4, "EndBi", "d4"))
        wait_for(lambda: job.count("end_reason = 'orphaned'") == 1, "the new End to be given up")
        wait_for(lambda: job.count("end_reason = 'timed_out'") == 2, "both sessions to time out")
    [orphan] = job.changes("end_reason = 'orphaned'")
    assert orphan.device_id == "d4"
    for row in job.changes("end_reason = 'timed_out'"):
        assert _ms(row.ended_at) - _ms(row.started_at) == 4_000


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1_000)


def test_files_folders_and_lines_of_every_kind(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path)
    nested = job.input / "pc_sessions" / "nested.json"
    nested.mkdir(parents=True)
    (job.input / "pc_sessions" / "date=2026-01-01").mkdir()
    start = json.dumps(message(1, "Start")).encode()
    for name in ("_hidden.json", ".hidden.json", "1.txt", "nested.json/2.json", "date=2026-01-01/3.json"):
        (job.input / "pc_sessions" / name).write_bytes(start + b"\n")
    job.send(start + b"\r", b"", b"\r", b" \t", b"\xff\xfe", b'{"a":1}\r{"b":2}')
    with job.running():
        wait_for(lambda: job.archived() == 3, "the three messages")
        console = message(2, "Start") | {"openPsid": "ps-1"}
        job.send(console, stream="console_sessions")
        wait_for(lambda: job.count("platform = 'console'") == 1, "the stream whose folder came later")
        wait_for(lambda: job.archived() == 4, "its message in the archive")
    raw = job.home.read(spark.read, RAW_EVENTS)
    assert {bytes(row.value) for row in raw.where("stream = 'pc_sessions'").collect()} == {
        start,
        b"\xff\xfe",
        b'{"a":1}\r{"b":2}',
    }
    assert job.count("change = 'started'") == 2


def test_a_failing_micro_batch_ends_the_query_with_its_cause(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path)
    with job.running() as queries:
        spark.sql(f"ALTER TABLE {job.home.sql_name('session_changes')} ADD CONSTRAINT no_pc CHECK (platform != 'pc')")
        job.send(message(1, "Start"))
        wait_for(lambda: not queries[SESSIONIZE].isActive, "the query to fail")
        assert "no_pc" in str(queries[SESSIONIZE].exception())
    spark.sql(f"ALTER TABLE {job.home.sql_name('session_changes')} DROP CONSTRAINT no_pc")
    with job.running():
        wait_for(lambda: job.count("change = 'started'") == 1, "the event of the failed micro-batch")


@pytest.mark.parametrize("device_groups", [4])
def test_device_groups_keep_lying_devices_apart(spark: SparkSession, tmp_path: Path, device_groups: int) -> None:
    job = Job(spark, tmp_path, device_groups=device_groups)
    with job.running():
        job.send(*(message(1, "Start", f"d{number}") for number in range(20)))
        wait_for(lambda: job.count("change = 'heartbeat'") >= 40, "heartbeats of all twenty devices")
    assert len({row.device_id for row in job.changes("change = 'heartbeat'")}) == 20
    assert job.count("change = 'started'") == 20
