"""A new checkpoint that begins with the tables' sessions: none is started again, beats go on, Ends are known, no message is doubled."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.spark import supervise
from sessionization.spark.checkpoint import SESSIONIZE
from sessionization.spark.offsets import newest_committed
from sessionization.spark.tables import SESSIONS
from tests.spark.test_stream import Job, message, wait_for

DEVICES = [f"d{number}" for number in range(6)]


def stopped_at(job: Job, beats: int) -> None:
    with job.running() as queries:
        wait_for(lambda: job.count("change = 'heartbeat'") >= beats, "heartbeats")
        wait_for(lambda: job.archived() == job.sent, "the archive")
        supervise.stop(queries, lambda _: None)


@pytest.mark.parametrize(("groups", "then"), [(None, 3), (3, None)])
def test_live_sessions_outlive_their_checkpoint_and_its_groups(
    spark: SparkSession, tmp_path: Path, groups: int | None, then: int | None
) -> None:
    job = Job(spark, tmp_path, device_groups=groups, late_retention="1h")
    starts = [message(1, "Start", device) for device in DEVICES]
    job.send(*starts, message(2, "Start", "over"), message(2, "EndBi", "over"))
    job.sent = 8
    stopped_at(job, 6)
    former = job.settings

    job.change(checkpoints=tmp_path / "other", device_groups=then, from_sessions=True)
    with (
        pytest.raises(ConfigurationError, match=r"holds 1 files whose messages the tables have .*1\.json"),
        job.running(),
    ):
        pass
    for file in job.input.glob("*/*.json"):
        file.unlink()
    beats = job.count("change = 'heartbeat'")
    job.send(*starts, message(1, "EndBi", "d0"), message(2, "EndBi", "over"), message(9, "Start", "new"))
    job.sent += 9
    stopped_at(job, beats + 12)
    assert (tmp_path / "other" / "seed").exists()
    stopped_at(job, beats + 18)  # a restart of the new checkpoint takes no seed again
    assert not (tmp_path / "other" / "seed").exists()
    assert newest_committed(tmp_path / "other" / SESSIONIZE) > 0

    assert Counter(row.device_id for row in job.changes("change = 'started'")) == Counter([*DEVICES, "over", "new"])
    assert [(row.device_id, row.end_reason) for row in job.changes("change = 'ended'")] == [
        ("over", "reported"),
        ("d0", "reported"),
    ]
    for device in DEVICES[1:]:
        rows = job.changes(f"change = 'heartbeat' AND device_id = '{device}'")
        assert len({row.due_at for row in rows}) == len(rows)
        # A new grid has other instants: the number of one of them may come once more, or not at all.
        assert abs(sum(row.missed_beats + 1 for row in rows) - rows[-1].beat) <= 1
    sessions = {(row.device_id, row.session_id): row.status for row in job.home.read(spark.read, SESSIONS).collect()}
    assert Counter(sessions.values()) == {"live": 6, "ended": 2}

    job.settings = former
    with pytest.raises(CheckpointError, match="written by another checkpoint"), job.running():
        pass


def test_without_tables_there_is_nothing_to_take_over(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path, from_sessions=True)
    with (
        pytest.raises(
            ConfigurationError, match=r"--from-sessions needs the tables of a job before: .* lacks session_changes"
        ),
        job.running(),
    ):
        pass
