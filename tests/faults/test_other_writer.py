"""Another writer changes `session_changes`: none of the job's own rows is lost or doubled."""

from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from tests.support.boundaries import Boundary
from tests.support.checkpoints import last_started
from tests.support.delta import read_table
from tests.support.harness import Scene
from tests.support.tables import differences

pytestmark = [pytest.mark.job, pytest.mark.long]

FOREIGN_DEVICE = "f" * 16


def test_another_writer_in_session_changes_loses_and_doubles_no_row_of_the_job(
    tmp_path: Path, spark: SparkSession
) -> None:
    """After a kill: an `OPTIMIZE`, a deleted row and an added row. While the job runs: another `OPTIMIZE`."""
    scene = Scene(1, 2, tmp_path)
    table = scene.job.warehouse / "session_changes"
    with scene.job:
        scene.cut(Boundary.AT_RANDOM)
        rollup_has_begun = last_started(scene.job.checkpoints / "rollup") >= 0
        changes = DeltaTable.forPath(spark, str(table))
        changes.optimize().executeCompaction()
        [*_, last] = (row for row in read_table(table) if row["change"] == "started")
        changes.delete(
            f"device_id = '{last['device_id']}' AND session_id = {last['session_id']} AND change = 'started'"
        )
        row = changes.toDF().where("change = 'started'").limit(1)
        foreign = (f"'{FOREIGN_DEVICE}' AS device_id" if name == "device_id" else name for name in row.columns)
        row.selectExpr(*foreign).write.format("delta").mode("append").save(str(table))

        scene.play_on()
        changes.optimize().executeCompaction()
        run = scene.stop()
    assert run.exit_code == 0
    # `sessions` still has the deleted change, as after a deletion by retention, and takes the added row as a change.
    found = [line.split(" (")[0] for line in differences(run.oracle, run.actual, run.job.checkpoints)]
    expected = ["session_changes: 1x missing", "session_changes: 1x too much", "sessions: 1x too much"]
    if rollup_has_begun:  # otherwise it begins with the table as it is after the deletion
        count = sum(row["change"] != "heartbeat" for row in run.actual["session_changes"])
        expected.append(f"stream_progress: rollup has read {count + 1} changes of {count}")
    assert found == expected
    keys = [(row["device_id"], row["session_id"]) for row in run.actual["sessions"]]
    assert (last["device_id"], last["session_id"]) in keys
    assert sum(device_id == FOREIGN_DEVICE for device_id, _ in keys) == 1
