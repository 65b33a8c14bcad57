"""The state of a job is shown while it runs; its reader returns every entry and timer, in both layouts."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.ops.inspect_state import inspect_state
from sessionization.ops.maintenance_settings import InspectSettings
from sessionization.ops.state_reader import StateReader
from sessionization.spark.checkpoint.folder import SESSIONIZE
from tests.support.settings import settings_of
from tests.support.state import entries_and_timers
from tests.support.stream_job import Job, message
from tests.support.waiting import wait_for

pytestmark = pytest.mark.spark

_ONE_DEVICE_PER_KEY = pytest.param(None, "devices", marks=pytest.mark.long)


# Spark's reader does not find a folder with a space in its name by itself.
@pytest.mark.parametrize(("device_groups", "folder"), [_ONE_DEVICE_PER_KEY, (2, "two groups")])
def test_the_state_of_a_job_is_shown_and_every_entry_and_timer_is_read(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], device_groups: int | None, folder: str
) -> None:
    job = Job(spark, tmp_path, device_groups=device_groups, late_retention="1h")
    job.change(checkpoints=tmp_path / folder)
    settings = settings_of(InspectSettings, checkpoints=job.settings.state.checkpoints, device="d1")
    lines: list[str] = []
    with pytest.raises(CheckpointError, match=r"holds no layout\.json"):
        inspect_state(settings, lines.append)
    with job.running(SESSIONIZE):
        job.send(
            message(1, "Start", "d1"), message(2, "Start", "d2"), message(2, "EndBi", "d2"), message(3, "EndBi", "d3"),
            message(4, "Start", "d2"),
        )  # fmt: skip
        wait_for(lambda: job.count(change="heartbeat") >= 2, "heartbeats")
        inspect_state(settings, lines.append)
    assert lines[0].startswith("state after micro-batch ")
    assert lines[0].endswith(", in 2 partitions")
    assert "|d1       |1         |live" in capsys.readouterr().out

    state = StateReader(spark, settings.state.checkpoints)
    (tmp_path / "plain").symlink_to(settings.state.checkpoints)
    entries, timers = entries_and_timers(spark, tmp_path / "plain")

    rows = {(row.device_id, row.session_id): row for row in state.sessions().collect()}
    assert {(*key, row.status) for key, row in rows.items()} == set(entries)
    assert sorted(row.status for row in rows.values()) == ["closed", "live", "live", "pending_end"]
    closed, live, pending = rows["d2", 2], rows["d1", 1], rows["d3", 3]
    assert (closed.end_reason, closed.revision) == ("reported", 0)
    assert closed.started_at <= closed.ended_at <= closed.since_at
    assert live.started_at <= live.opened_at
    assert (live.ended_at, live.since_at, live.platform) == (None, None, "pc")
    assert (pending.started_at, pending.end_reason) == (None, None)
    assert pending.ended_at <= pending.since_at

    assert sorted(row.grouping_key for row in state.timers().collect()) == sorted(key for key, _ in timers)
    assert [row.session_id for row in state.of_device("d2").collect()] == [2, 4]
    assert state.of_device("nobody").count() == 0
    assert state.fullest_device() == state.largest_devices(1).first().device_id == "d2"
    assert state.of_device(None).count() == 0

    partitions = state.by_partition().collect()
    sums = {
        name: sum(row[name] for row in partitions) for name in ("devices", "live", "closed", "pending_ends", "timers")
    }
    assert sums == {"devices": 3, "live": 2, "closed": 1, "pending_ends": 1, "timers": len(timers)}


def test_a_folder_without_state_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no state"):
        StateReader(spark, tmp_path).sessions()


def test_a_state_before_its_first_micro_batch_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "sessionize" / "state").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match=r"cannot be read .* try again after the next micro-batch"):
        StateReader(spark, tmp_path).sessions()
