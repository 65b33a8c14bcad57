"""The state of a job is shown, also while the job runs."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.ops.inspect_state import inspect_state
from sessionization.ops.maintenance_settings import InspectSettings
from sessionization.ops.state_reader import StateReader
from sessionization.spark.checkpoint.folder import SESSIONIZE
from tests.support.settings import settings_of
from tests.support.stream_job import Job, message
from tests.support.waiting import wait_for

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("device_groups", [2, pytest.param(None, marks=pytest.mark.long)])
def test_the_state_of_a_job_is_shown(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], device_groups: int | None
) -> None:
    job = Job(spark, tmp_path, device_groups=device_groups, late_retention="1h")
    settings = settings_of(InspectSettings, checkpoints=job.settings.state.checkpoints, device="d1")
    with pytest.raises(CheckpointError, match=r"holds no layout\.json"):
        inspect_state(settings, lambda _: None)
    with job.running(SESSIONIZE):
        with pytest.raises(ConfigurationError, match="holds no state"):
            StateReader(spark, tmp_path).at_newest()
        job.send(
            message(1, "Start", "d1"), message(2, "Start", "d2"), message(2, "EndBi", "d2"), message(3, "EndBi", "d3"),
            message(4, "Start", "d2"),
        )  # fmt: skip
        wait_for(lambda: job.count(change="heartbeat") >= 2, "heartbeats")
        lines: list[str] = []
        inspect_state(settings, lines.append)  # while the stream runs
        assert "|d1       |1         |live" in capsys.readouterr().out
    inspect_state(settings, lines.append)
    assert lines[0].startswith("state after micro-batch ")
    assert lines[0].endswith(", in 2 partitions")
    assert "|d1       |1         |live" in capsys.readouterr().out

    reader = StateReader(spark, settings.state.checkpoints)
    sums = reader.by_partition().groupBy().sum("devices", "live", "closed", "pending_ends", "timers").first()
    assert sums is not None
    assert tuple(sums)[:4] == (3, 2, 1, 1)
    assert sums[4] >= (1 if device_groups else 3)
