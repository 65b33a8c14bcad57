"""The state of a job: it is shown while the job runs, read after it, and moved to more and to fewer partitions."""

import json
import shutil
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.errors import CheckpointError, ConfigurationError, StateError
from sessionization.ops import rescale as rescaling
from sessionization.ops.inspect_state import inspect_state
from sessionization.ops.maintenance_settings import InspectSettings, RescaleSettings
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
from tests.support.event_maps import WITH_PINGS
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


@pytest.mark.parametrize(
    ("folder", "refusal"),
    [("sessionize", "holds no state"), ("sessionize/state", "cannot be read .* try again after the next micro-batch")],
)
def test_a_state_that_is_not_there_is_refused(spark: SparkSession, tmp_path: Path, folder: str, refusal: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    with pytest.raises(ConfigurationError, match=refusal):
        StateReader(spark, tmp_path).sessions()


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
    (tmp_path / "pings.yml").write_text(WITH_PINGS)
    job = Job(
        spark, tmp_path, device_groups=device_groups, late_retention="1h", events=str(tmp_path / "pings.yml"),
        inactivity_timeout="1h",
    )  # fmt: skip
    job.change(checkpoints=tmp_path / folder)
    query = tmp_path / folder / SESSIONIZE
    (tmp_path / "plain").symlink_to(tmp_path / folder)
    job.send(*(message(1, "Start", f"d{number}") for number in range(1, DEVICES)), message(2, "EndBi", "waits"))
    job.send(message(1, "Start", "without a start") | {"eventId": "Ping"})
    beats = 1
    for former_partitions, partitions in ((2, 5), (5, 3)):
        run_until(job, beats)
        assert read_started_batch(query, newest_started_batch(query)).partitions == former_partitions
        entries, timers = entries_and_timers(spark, tmp_path / "plain")
        assert Counter(status for *_, status in entries) == {"live": DEVICES - 1, "pending_end": 1, "implied_live": 1}
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
