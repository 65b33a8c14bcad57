"""A stopped job's state moves to more and to fewer partitions: entries and timers stay, and heartbeats go on."""

import json
import shutil
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.errors import CheckpointError, ConfigurationError, StateError
from sessionization.ops import rescale as rescaling
from sessionization.ops.maintenance_settings import RescaleSettings
from sessionization.ops.rescale import Fingerprint, rescale
from sessionization.ops.state_reader import StateReader
from sessionization.spark.checkpoint.folder import SESSIONIZE
from sessionization.spark.checkpoint.folder_lock import lock_folder
from sessionization.spark.checkpoint.spark_logs import (
    has_unfinished_batch,
    newest_committed_batch,
    newest_started_batch,
    read_started_batch,
)
from tests.support.settings import settings_of
from tests.support.state import entries_and_timers
from tests.support.stream_job import Job, message
from tests.support.waiting import wait_for

pytestmark = pytest.mark.spark

DEVICES = 12


def run_until(job: Job, beats: int) -> None:
    """Run the job until it has emitted `beats` heartbeats, and stop it between two micro-batches."""
    query = job.settings.state.checkpoints / SESSIONIZE
    has_beaten = lambda: job.count(change="heartbeat") >= beats  # noqa: E731
    while True:
        with job.running(SESSIONIZE) as queries:
            wait_for(has_beaten, "heartbeats")
            job.stop(queries)
        if not has_unfinished_batch(query):
            return


def run_rescale(checkpoints: Path, partitions: int) -> list[str]:
    lines: list[str] = []
    rescale(settings_of(RescaleSettings, checkpoints=checkpoints, partitions=partitions), lines.append)
    return lines


@pytest.mark.long
@pytest.mark.parametrize(("device_groups", "folder"), [(None, "devices"), (4, "four groups")])
def test_a_rescale_to_five_and_then_three_partitions_preserves_entries_timers_and_beats(
    spark: SparkSession, tmp_path: Path, device_groups: int | None, folder: str
) -> None:
    job = Job(spark, tmp_path, device_groups=device_groups, late_retention="1h")
    job.change(checkpoints=tmp_path / folder)
    query = tmp_path / folder / SESSIONIZE
    (tmp_path / "plain").symlink_to(tmp_path / folder)
    job.send(*(message(1, "Start", f"d{number}") for number in range(DEVICES)), message(2, "EndBi", "waits"))
    beats = 1
    for former_partitions, partitions in ((2, 5), (5, 3)):
        run_until(job, beats)
        assert read_started_batch(query, newest_started_batch(query)).partitions == former_partitions
        entries, timers = entries_and_timers(spark, tmp_path / "plain")
        assert len(entries) == DEVICES + 1
        lines = run_rescale(tmp_path / folder, partitions)
        assert (
            lines[-1]
            == f"{len(entries)} entries and {len(timers)} timers in {partitions} partitions, the same as before"
        )
        assert [sorted(rows) for rows in entries_and_timers(spark, tmp_path / "plain")] == [
            sorted(entries),
            sorted(timers),
        ]
        assert len({row.partition for row in StateReader(spark, tmp_path / folder).timers().collect()}) > 1
        beats = job.count(change="heartbeat") + DEVICES
    run_until(job, beats)
    assert read_started_batch(query, newest_started_batch(query)).partitions == partitions
    assert run_rescale(tmp_path / folder, partitions) == ["the state has 3 partitions already: there is nothing to do"]

    assert job.count(change="started") == DEVICES
    assert job.count(change="ended") == 0
    last, counted = Counter(), Counter()
    for row in job.changes(change="heartbeat"):
        counted[row["device_id"]] += 1 + row["missed_beats"]
        last[row["device_id"]] = max(last[row["device_id"]], row["beat"])
    assert counted == last
    assert len(last) == DEVICES


@pytest.fixture(scope="module")
def stopped(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint folder of a job that has stopped between two micro-batches."""
    job = Job(spark, tmp_path_factory.mktemp("stopped"), device_groups=4)
    job.send(message(1, "Start"))
    run_until(job, 1)
    return job.settings.state.checkpoints


@pytest.fixture
def checkpoints(stopped: Path, tmp_path: Path) -> Path:
    """A copy of the stopped job's checkpoint folder."""
    return shutil.copytree(stopped, tmp_path / "copy")


def contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file() and file.name != "lock"}


def test_a_state_that_cannot_be_rescaled_is_refused_and_unchanged(
    spark: SparkSession, checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = checkpoints / SESSIONIZE
    newest = newest_started_batch(query)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rescaling, "lock_folder", partial(lock_folder, wait_s=0.1))
        with lock_folder(checkpoints, print), pytest.raises(CheckpointError, match="is in use by process"):
            run_rescale(checkpoints, 5)
    commit = query / "commits" / str(newest)
    commit.rename(tmp_path / "commit")
    with pytest.raises(StateError, match="LAST_BATCH_FAILED"):
        run_rescale(checkpoints, 5)
    (tmp_path / "commit").rename(commit)

    before = contents(checkpoints)
    monkeypatch.setattr(rescaling, "fingerprint", lambda *_: Fingerprint(1, 7, 1, 7))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(spark), "_streamingCheckpointManager", property(lambda _: None.missing))
        with pytest.raises(ConfigurationError, match="cannot repartition a state"):
            run_rescale(checkpoints, 5)
    assert newest_started_batch(query) == newest_committed_batch(query) == newest
    assert contents(checkpoints) == before


def test_a_rescale_that_was_cut_off_is_finished_with_the_same_number(checkpoints: Path) -> None:
    query = checkpoints / SESSIONIZE
    newest = newest_started_batch(query)
    lines = (query / "offsets" / str(newest)).read_text().splitlines()
    conf = json.loads(lines[1])
    conf["conf"]["spark.sql.shuffle.partitions"] = "5"
    (query / "offsets" / str(newest + 1)).write_text("\n".join([lines[0], json.dumps(conf), *lines[2:]]))
    with pytest.raises(StateError, match="repartition batch with 5 shuffle partitions"):
        run_rescale(checkpoints, 3)
    assert "the same as before" in run_rescale(checkpoints, 5)[-1]
    assert newest_committed_batch(query) == newest + 1
    assert read_started_batch(query, newest + 1).partitions == 5


def test_a_state_that_differs_after_a_rescale_is_an_error(checkpoints: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fingerprints = iter((Fingerprint(1, 7, 1, 7), Fingerprint(1, 8, 1, 7)))
    monkeypatch.setattr(rescaling, "fingerprint", lambda *_: next(fingerprints))
    monkeypatch.setattr(rescaling, "_repartition", lambda *_: None)
    with pytest.raises(StateError, match="the state is not what it was"):
        run_rescale(checkpoints, 5)
