"""A checkpoint that an earlier version wrote, gone on with by a later one whose state has one more field."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.ops import state as ops_state
from tests.e2e.later import LATER, LATER_SCHEMA, later_library
from tests.e2e.tables import Tables, read_tables
from tests.fixtures.old_checkpoints import say, unpack

STATUSES = {
    ("live", 1): "live", ("beats", 2): "live", ("over", 3): "closed", ("waits", 4): "pending_end",
    ("next", 5): "closed", ("next", 6): "live",
}  # fmt: skip


def entries(spark: SparkSession, checkpoints: Path) -> dict[tuple[str, int], tuple[str, str | None]]:
    """What is remembered, by device and session: its status, and who wrote it."""
    rows = ops_state.StateReader(spark, checkpoints).entries().collect()
    return {(row.device_id, row.session_id): (row.status, row.written_by) for row in rows}


def told(tables: Tables) -> Counter[tuple[str, int, str, str | None, int]]:
    """The changes but the heartbeats: device, session, change, reason, revision."""
    rows = tables["session_changes"].of("device_id", "session_id", "change", "end_reason", "revision")
    return Counter(row for row in rows if row[2] != "heartbeat")


@pytest.mark.parametrize("layout", [pytest.param("devices", marks=pytest.mark.long), "groups"])
def test_a_later_version_goes_on_with_it(
    layout: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ops_state, "STATE_SCHEMA", LATER_SCHEMA)
    job = unpack(tmp_path, layout)
    before = read_tables(job.warehouse)
    # As the later version reads them.
    assert entries(spark, job.checkpoints) == {key: (status, None) for key, status in STATUSES.items()}

    job.library = later_library(tmp_path)
    say(
        job, "after", ("live", 1, "Start"), ("live", 1, "EndBi"), ("over", 3, "EndBi"), ("waits", 4, "Start"),
        ("next", 5, "EndBi"), ("new", 7, "Start"),
    )  # fmt: skip
    try:
        job.start()
        job.wait_until_done()
        job.come_to_rest("sessionize", "archive")
    finally:
        job.kill_if_running()

    after = read_tables(job.warehouse)
    assert told(after) - told(before) == Counter([
        ("live", 1, "ended", "reported", 0),
        ("waits", 4, "started", None, 0),
        ("waits", 4, "ended", "reported", 0),
        ("next", 5, "ended", "reported", 1),
        ("new", 7, "started", None, 0),
    ])  # fmt: skip
    assert not told(before) - told(after)
    sums = Counter[str]()
    for row in after["stream_progress"]:
        sums.update({name: row[name] or 0 for name in ("duplicate_start", "duplicate_end")})
    assert sums == {"duplicate_start": 1, "duplicate_end": 1}
    sessions = {(row["device_id"], row["session_id"]): row for row in after["sessions"]}
    assert {key for key, row in sessions.items() if row["status"] == "live"} == {("beats", 2), ("next", 6), ("new", 7)}

    # The first beat after years stands for all that were missed.
    for session in (("beats", 2), ("next", 6)):
        beats = [
            row for row in after["session_changes"] if row["beat"] and (row["device_id"], row["session_id"]) == session
        ]
        assert sum(1 + row["missed_beats"] for row in beats) == max(row["beat"] for row in beats)
        assert len(beats) > len(
            [row for row in before["session_changes"] if row["beat"] and row["device_id"] == session[0]]
        )

    found = entries(spark, job.checkpoints)
    assert found.keys() == {*STATUSES, ("new", 7)}
    assert {key: found[key] for key in (("beats", 2), ("new", 7), ("live", 1))} == {
        ("beats", 2): ("live", None), ("new", 7): ("live", LATER), ("live", 1): ("closed", LATER)
    }  # fmt: skip
