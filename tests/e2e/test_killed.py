"""The job killed again and again at the worst moments: its tables are those of a job that was never disturbed."""

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sessionization.core.events import EndReason
from sessionization.core.state import Rules
from tests.e2e import checkpoints
from tests.e2e.accounts import unaccounted
from tests.e2e.delta import last_batch_in
from tests.e2e.evening import Evening
from tests.e2e.job import Job
from tests.e2e.oracle import COLUMNS, Oracle, tell
from tests.e2e.state import entries_and_timers
from tests.e2e.tables import Tables, differences, read_tables
from tests.e2e.wire import REASONS

SEED = 20_260_101
RULES = Rules(heartbeat_ms=2_000, session_timeout_ms=40_000, late_retention_ms=4_000, max_sessions_per_device=3)
OPTIONS = ("--heartbeat=2s", "--session-timeout=40s", "--late-retention=4s", "--max-sessions-per-device=3")
# Many sessions per device, so that they meet; a file a second of the evening's ten minutes, at ten times its pace.
EVENING = {"duration": "10m", "rate": 8, "session_length": "40s", "devices": 260, "dirt": 0.3, "file_interval": "10s"}
FILES_BEFORE_START = 4
FILES_WHILE_RUNNING = 16
RELEASE_S = 0.4
UNCHECKED = {("stream_progress", "state_bytes")}


@dataclass(frozen=True)
class Run:
    """What a job has left behind after its last stop, and what it should have."""

    job: Job
    oracle: Oracle
    actual: Tables
    exit_code: int
    halves: list[str]
    """The tables that the kills left with rows of an uncommitted micro-batch."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("killed")
    evening = Evening(folder / "staging", seed=SEED, **EVENING)
    job = Job(folder, "--trigger=500ms", *OPTIONS)
    rng = random.Random(SEED)
    halves = []
    try:
        for moment in (_starting, _changes_written, _at_random, _raw_events_written):
            evening.release(job.input, FILES_BEFORE_START)
            job.start()
            _play(job, evening, FILES_WHILE_RUNNING, moment(job, rng))
            job.kill()
            halves += _half_done(job)
        job.start()
        _play(job, evening, len(evening), lambda: not len(evening))
        job.wait_until_done()
        time.sleep(rng.uniform(1, 3))
        exit_code = job.terminate()
    finally:
        job.kill_if_running()
    return Run(job, tell(job.checkpoints, RULES), read_tables(job.warehouse), exit_code, halves)


def _play(job: Job, evening: Evening, files: int, reached: Callable[[], bool]) -> None:
    """Release so many files, some at a time, while waiting for a moment; what it cuts off stays for later."""
    left = files
    next_s = time.monotonic() + RELEASE_S

    def released_or_reached() -> bool:
        nonlocal left, next_s
        if left and time.monotonic() >= next_s:
            evening.release(job.input, 2)
            left, next_s = left - 2, next_s + RELEASE_S
        return reached()

    job.wait_until(released_or_reached, "the moment to kill it or the end of the evening")


def _starting(_job: Job, rng: random.Random) -> Callable[[], bool]:
    return _after(rng.uniform(3, 9))


def _at_random(job: Job, rng: random.Random) -> Callable[[], bool]:
    committed = checkpoints.last_committed(job.checkpoints / "sessionize")
    seconds = rng.uniform(0, 4)
    passed: list[Callable[[], bool]] = []

    def reached() -> bool:
        if not passed and checkpoints.last_committed(job.checkpoints / "sessionize") > committed:
            passed.append(_after(seconds))
        return bool(passed) and passed[0]()

    return reached


def _changes_written(job: Job, _rng: random.Random) -> Callable[[], bool]:
    return _written(job.warehouse / "session_changes", times=2)


def _raw_events_written(job: Job, _rng: random.Random) -> Callable[[], bool]:
    return _written(job.warehouse / "raw_events", times=1)


def _after(seconds: float) -> Callable[[], bool]:
    until_s = time.monotonic() + seconds
    return lambda: time.monotonic() >= until_s


def _written(table: Path, times: int) -> Callable[[], bool]:
    """The table is committed to, and the micro-batch that does it is not done yet."""
    # The first start creates the table, which is a commit too.
    before = max(_versions(table), 1)
    return lambda: _versions(table) >= before + times


def _versions(table: Path) -> int:
    return len(list((table / "_delta_log").glob("*.json")))


def _half_done(job: Job) -> list[str]:
    """The tables that have rows of a micro-batch that is not committed."""
    return [
        table
        for table, query in (("session_changes", "sessionize"), ("raw_events", "archive"))
        if last_batch_in(job.warehouse / table, query) > checkpoints.last_committed(job.checkpoints / query)
    ]


def test_sigterm_ends_it_with_code_0_and_a_summary(run: Run) -> None:
    # That this took less than a minute and left no process behind, `Job.terminate` has seen to.
    assert run.exit_code == 0, run.job.said()[-8:]
    assert any(line.startswith("sessionize: events in ") for line in run.job.said()[-8:])


def test_the_kills_left_micro_batches_half_done(run: Run) -> None:
    assert {"session_changes", "raw_events"} <= set(run.halves)


def test_tables_equal_the_reference(run: Run) -> None:
    assert differences(run.oracle, run.actual, run.job.checkpoints) == []


@pytest.mark.parametrize("query", ["sessionize", "archive"])
def test_every_file_is_read_once(run: Run, query: str) -> None:
    assert Counter(run.oracle.files[query]) == Counter(run.job.input.glob("*/*.json"))


def test_state_and_timers_equal_the_reference(run: Run, spark: SparkSession) -> None:
    entries, timers = entries_and_timers(spark, run.job.checkpoints)
    assert Counter(entries) == Counter(run.oracle.entries)
    assert Counter(timers) == Counter(run.oracle.timers.items())


def test_every_message_is_accounted_for(run: Run) -> None:
    """Archived, and then in quarantine, or an event that started or ended something, waits, or is a repeat."""
    waiting = [(device_id, session_id) for device_id, session_id, what in run.oracle.entries if what == "pending_end"]
    assert unaccounted(run.actual, waiting) == []


def test_every_rule_was_needed(run: Run) -> None:
    """The equality above is worth as much as the evening that it was found with."""
    changes, progress = run.actual["session_changes"], run.actual["stream_progress"]
    assert {change["end_reason"] for change in changes} == {None, *EndReason}
    assert max(change["revision"] for change in changes) > 0
    assert max(change["missed_beats"] or 0 for change in changes) > 0
    assert {row["reason"] for row in run.actual["quarantine"]} == REASONS
    assert len({row["ingest_date"] for row in run.actual["raw_events"]}) == 2
    for name in ("duplicate_start", "duplicate_end", "evicted"):
        assert sum(row[name] or 0 for row in progress) > 0
    remembered = {(device_id, session_id) for device_id, session_id, _ in run.oracle.entries}
    assert remembered < {(row["device_id"], row["session_id"]) for row in run.actual["sessions"]}


@pytest.mark.parametrize("table", COLUMNS)
@pytest.mark.parametrize("times", [0, 2])
def test_a_row_dropped_or_doubled_is_found(run: Run, table: str, times: int) -> None:
    for place in (0, len(run.actual[table]) // 2, -1):
        rows = list(run.actual[table])
        rows += [rows.pop(place)] * times
        found = differences(run.oracle, run.actual | {table: rows}, run.job.checkpoints)
        assert any(line.startswith(table) for line in found)


@pytest.mark.parametrize("table", COLUMNS)
def test_a_value_altered_is_found(run: Run, table: str) -> None:
    rows = run.actual[table]
    # A row of which as much as possible is known.
    place = max(range(len(rows)), key=lambda at: sum(value is not None for value in rows[at].values()))
    unnoticed = []
    for name, value in rows[place].items():
        altered = [*rows[:place], rows[place] | {name: _altered(value)}, *rows[place + 1 :]]
        if not differences(run.oracle, run.actual | {table: altered}, run.job.checkpoints):
            unnoticed.append((table, name))
    assert set(unnoticed) <= UNCHECKED


def _altered(value: Any) -> Any:
    match value:
        case None:
            return 1
        case str():
            return f"{value}x"
        case bytes():
            return value + b" "
        case _:
            return value + 1
