"""A checkpoint that an earlier version wrote: this version goes on with it, and so does a later one."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.ops import state_reader as ops_state
from sessionization.settings.sessionize_settings import SessionizeSettings
from tests.e2e.job import Job
from tests.e2e.later import LATER, LATER_SCHEMA, later_library
from tests.e2e.tables import Tables, read_tables
from tests.fixtures.old_checkpoints import LAYOUTS, OPTIONS, say, unpack
from tests.spark.in_process import job_running

SAID_LATER = (
    ("live", 1, "Start"), ("live", 1, "EndBi"), ("over", 3, "EndBi"), ("waits", 4, "Start"), ("next", 5, "EndBi"),
    ("new", 7, "Start"),
)  # fmt: skip
CHANGES_LATER = Counter([
    ("live", 1, "ended", "reported", 0),
    ("waits", 4, "started", None, 0),
    ("waits", 4, "ended", "reported", 0),
    ("next", 5, "ended", "reported", 1),
    ("new", 7, "started", None, 0),
])  # fmt: skip
STATUSES = {
    ("live", 1): "live", ("beats", 2): "live", ("over", 3): "closed", ("waits", 4): "pending_end",
    ("next", 5): "closed", ("next", 6): "live",
}  # fmt: skip
STATUSES_LATER = STATUSES | {("live", 1): "closed", ("waits", 4): "closed", ("new", 7): "live"}


def remembered(spark: SparkSession, checkpoints: Path) -> dict[tuple[str, int], str]:
    """The status of what is remembered, by device and session."""
    rows = ops_state.StateReader(spark, checkpoints).entries().collect()
    return {(row.device_id, row.session_id): row.status for row in rows}


def writers(spark: SparkSession, checkpoints: Path) -> dict[tuple[str, int], str | None]:
    """Who wrote what is remembered, as the later version's field says; None where an earlier one did."""
    rows = ops_state.StateReader(spark, checkpoints).entries().collect()
    return {(row.device_id, row.session_id): row.written_by for row in rows}


def changes(tables: Tables) -> Counter[tuple[str, int, str, str | None, int]]:
    """The changes but the heartbeats: device, session, change, reason, revision."""
    rows = tables["session_changes"].of("device_id", "session_id", "change", "end_reason", "revision")
    return Counter(row for row in rows if row[2] != "heartbeat")


def beats(tables: Tables, session: tuple[str, int]) -> list[tuple[int, int]]:
    """The number and the missed ones of a session's heartbeats."""
    rows = tables["session_changes"].of("device_id", "session_id", "change", "beat", "missed_beats")
    return [row[3:] for row in rows if row[:3] == (*session, "heartbeat")]


def assert_gone_on(before: Tables, after: Tables) -> None:
    """What was said later has changed what it must, and what beat before beats again."""
    assert changes(after) - changes(before) == CHANGES_LATER
    assert not changes(before) - changes(after)
    assert len(after["raw_events"]) == len(before["raw_events"]) + len(SAID_LATER)
    sums = Counter[str]()
    for row in after["stream_progress"]:
        sums.update({name: row[name] or 0 for name in ("duplicate_start", "duplicate_end")})
    assert sums == {"duplicate_start": 1, "duplicate_end": 1}
    sessions = {(row["device_id"], row["session_id"]): row for row in after["sessions"]}
    assert {key for key, row in sessions.items() if row["status"] == "live"} == {("beats", 2), ("next", 6), ("new", 7)}
    # The first beat after years stands for all that were missed.
    for session in (("beats", 2), ("next", 6)):
        found = beats(after, session)
        assert sum(1 + missed for _, missed in found) == max(beat for beat, _ in found)
        assert len(found) > len(beats(before, session))


def has_gone_on(before: Tables, job: Job) -> bool:
    """Whether the tables hold all that follows from what was said later."""
    tables = read_tables(job.warehouse)
    is_merged = {("next", 5), ("new", 7)} <= {
        (row["device_id"], row["session_id"]) for row in tables["sessions"] if row["end_reason"] != "superseded"
    }
    beats_again = all(len(beats(tables, of)) > len(beats(before, of)) for of in (("beats", 2), ("next", 6)))
    is_archived = len(tables["raw_events"]) >= len(before["raw_events"]) + len(SAID_LATER)
    return is_merged and is_archived and beats_again and changes(tables) - changes(before) == CHANGES_LATER


def test_this_version_goes_on_with_it(tmp_path: Path, spark: SparkSession) -> None:
    job = unpack(tmp_path, "groups")
    before = read_tables(job.warehouse)
    assert remembered(spark, job.checkpoints) == STATUSES
    said = dict(option.removeprefix("--").split("=") for option in (*OPTIONS, *LAYOUTS["groups"]))
    options = {name.replace("-", "_"): value for name, value in said.items()}
    folders = {"input": job.input, "warehouse": job.warehouse, "checkpoints": job.checkpoints, "mlflow": "off"}
    with job_running(SessionizeSettings.model_validate(folders | options)) as running:
        say(job, "after", *SAID_LATER)
        running.wait_for(lambda: has_gone_on(before, job), "all changes")
    assert_gone_on(before, read_tables(job.warehouse))
    assert remembered(spark, job.checkpoints) == STATUSES_LATER


@pytest.mark.long
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_later_version_goes_on_with_it(
    layout: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state has one more field."""
    monkeypatch.setattr(ops_state, "STATE_SCHEMA", LATER_SCHEMA)
    job = unpack(tmp_path, layout)
    before = read_tables(job.warehouse)
    assert remembered(spark, job.checkpoints) == STATUSES
    assert writers(spark, job.checkpoints) == dict.fromkeys(STATUSES)

    job.library = later_library(tmp_path)
    say(job, "after", *SAID_LATER)
    try:
        job.start()
        job.wait_until_done()
        job.come_to_rest("sessionize", "archive")
    finally:
        job.kill_if_running()

    assert_gone_on(before, read_tables(job.warehouse))
    assert remembered(spark, job.checkpoints) == STATUSES_LATER
    found = writers(spark, job.checkpoints)
    assert {key: found[key] for key in (("beats", 2), ("new", 7), ("live", 1))} == {
        ("beats", 2): None, ("new", 7): LATER, ("live", 1): LATER
    }  # fmt: skip
