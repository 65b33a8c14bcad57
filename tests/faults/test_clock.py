"""A clock that was ahead and is put right: time runs backwards from one micro-batch to the next.

Spark takes the wall clock as it is. So the timers that were set meanwhile lie in the future, and their devices are
silent until it has come; what the devices say themselves is applied at once.
"""

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.e2e.accounts import unaccounted
from tests.e2e.checkpoints import batches_of
from tests.e2e.oracle import COLUMNS
from tests.e2e.state import entries_and_timers
from tests.faults.boundaries import Boundary
from tests.faults.harness import Run, Scene

pytestmark = pytest.mark.long

AHEAD_MS = 3_600_000
_EVENT_MS = COLUMNS["session_changes"].index("event_ms")
_PROCESSED_MS = COLUMNS["session_changes"].index("processed_ms")


def put_ahead(offset: Path) -> None:
    """Let a micro-batch that was begun have been begun under a clock that is ahead."""
    version, conf, *offsets = offset.read_text(encoding="utf-8").split("\n")
    ahead = json.loads(conf)
    ahead["batchTimestampMs"] += AHEAD_MS
    offset.write_text("\n".join((version, json.dumps(ahead), *offsets)), encoding="utf-8")
    offset.with_name(f".{offset.name}.crc").unlink(missing_ok=True)


def run_back(folder: Path) -> tuple[Run, int]:
    """A run in which the clock goes back after a micro-batch; that micro-batch's clock."""
    scene = Scene(1, 3, folder)
    job = scene.job
    try:
        scene.cut(Boundary.AT_RANDOM)
        scene.cut(Boundary.OFFSET_LOGGED)
        batch_id, _ = scene.traces.stage()
        put_ahead(job.checkpoints / "sessionize" / "offsets" / str(batch_id))
        scene.cut(Boundary.STATE_COMMITTED)
        run = scene.end()
    finally:
        job.kill_if_running()
    clocks_ms = [batch.clock_ms for batch in batches_of(job.checkpoints / "sessionize")]
    assert max(clocks_ms) == clocks_ms[batch_id] != clocks_ms[-1]
    return run, clocks_ms[batch_id]


def test_a_clock_that_comes_back(tmp_path: Path, spark: SparkSession) -> None:
    run, ahead_ms = run_back(tmp_path)
    assert run.exit_code == 0
    entries, timers = entries_and_timers(spark, run.job.checkpoints)

    # Nothing is said that should not be, nothing twice, and all that devices said is there.
    said = Counter(tuple(row[name] for name in COLUMNS["session_changes"]) for row in run.actual["session_changes"])
    wanted = run.oracle.tables["session_changes"].certain
    assert not said - wanted
    missing = wanted - said
    assert missing
    assert {row[_EVENT_MS] for row in missing} == {None}
    assert min(row[_PROCESSED_MS] for row in missing) < ahead_ms
    pending = [(device_id, session_id) for device_id, session_id, status in entries if status == "pending_end"]
    assert unaccounted(run.actual, pending) == []

    # Whoever is silent has a timer still, to speak again when the clock has caught up.
    assert {device_id for device_id, _, _ in entries} <= {device_id for device_id, _ in timers}
    assert any(timer_ms > ahead_ms for _, timer_ms in timers)
