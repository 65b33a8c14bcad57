"""A job with an inactivity timeout, whose players send pings: tables and state are the second implementation's."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.boundaries import Boundary
from tests.support.delta import read_table
from tests.support.event_maps import WITH_PINGS
from tests.support.harness import FILES_PER_START, RULES_WITH_ACTIVITY, Scene, compare
from tests.support.job import Job
from tests.support.oracle_columns import ACTIVITY_COUNTS

pytestmark = pytest.mark.job

# Nothing is forgotten, so that a session can go on however slow the machine is.
RULES = replace(RULES_WITH_ACTIVITY, late_retention_ms=3_600_000)
SILENT = 10


@pytest.mark.parametrize("groups", [None, pytest.param(8, marks=pytest.mark.long)], ids=["by device", "in groups"])
def test_a_dirty_evening_with_pings_and_a_kill_has_no_difference(
    spark: SparkSession, tmp_path: Path, groups: int | None
) -> None:
    scene = Scene(7, 1, tmp_path, groups=groups, events=WITH_PINGS, rules=RULES)
    with scene.job:
        scene.cut(Boundary.CHANGES_COMMITTED)
        scene.release(FILES_PER_START)
        scene.job.start()
        scene.job.wait_until(lambda: silent(scene.job) >= SILENT, "sessions fall silent", poll_s=0.5)
        scene.play_rest()
        run = scene.stop()
    assert compare(run, spark) == []

    changes, progress = run.actual["session_changes"], run.actual["stream_progress"]
    assert {"inactive", "superseded", "reported"} <= {change["end_reason"] for change in changes}
    assert {name for name in ACTIVITY_COUNTS if any(row[name] for row in progress)} == {*ACTIVITY_COUNTS}
    starts = [(change["device_id"], change["session_id"]) for change in changes if change["change"] == "started"]
    assert len({*starts}) < len(starts), "a Start after an Activity of its session"


def silent(job: Job) -> int:
    """The number of sessions that a timer has ended as inactive."""
    changes = read_table(job.warehouse / "session_changes")
    return sum(reason == "inactive" and event_ms is None for reason, event_ms in changes.of("end_reason", "event_ms"))
