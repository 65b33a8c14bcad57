"""Faults beside a kill: the harness finds a broken sink; damaged state, a full disk, another writer lose nothing."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from tests.support.boundaries import Boundary
from tests.support.checkpoints import last_committed, last_started
from tests.support.delta import read_table
from tests.support.harness import Scene, compare, play
from tests.support.tables import differences

pytestmark = [pytest.mark.job, pytest.mark.long]

BROKEN_JOB = Path(__file__).with_name("broken_job.py")


@pytest.mark.parametrize(
    ("mutation", "boundaries", "verdict"),
    [
        ("not-idempotent", (Boundary.CHANGES_COMMITTED,), "too much"),
        ("dropping", (Boundary.AT_RANDOM,), "missing"),
    ],
)
def test_the_harness_finds_a_broken_sink(
    tmp_path: Path, mutation: str, boundaries: Sequence[Boundary], verdict: str
) -> None:
    run = play(1, len(boundaries), tmp_path, boundaries=boundaries, entry=(BROKEN_JOB, mutation))
    found = differences(run.oracle, run.actual, run.job.checkpoints)
    assert any(line.startswith("session_changes: ") and f"x {verdict} (" in line for line in found), found


def changelog(scene: Scene, version: int) -> Path:
    """The file with a partition's changes that lead to a version; micro-batch N makes version N + 1."""
    return scene.job.checkpoints / "sessionize" / "state" / "0" / "0" / f"{version}.changelog"


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def test_a_damaged_changelog_stops_the_job_with_a_message_and_can_be_repaired(
    tmp_path: Path, spark: SparkSession
) -> None:
    scene = Scene(1, 2, tmp_path)
    job = scene.job
    with job:
        scene.cut(Boundary.AT_RANDOM)
        # The changelog of a micro-batch that was not committed is written again.
        scene.cut(Boundary.STATE_COMMITTED)
        batch_id, _ = scene.traces.stage()
        cut_short(changelog(scene, batch_id + 1))

        scene.cut(Boundary.OFFSET_LOGGED)
        batch_id, _ = scene.traces.stage()
        newest = changelog(scene, batch_id)
        content = newest.read_bytes()
        for damage in (cut_short, flip_a_byte):
            newest.write_bytes(content)
            damage(newest)
            line_count = len(job.output_lines())
            job.start()
            assert job.wait_for_end(within_s=120) == 1
            lines = [line for line in job.output_lines()[line_count:] if not line.startswith("sessionize: starting")]
            assert all(line.startswith("sessionize: ") for line in lines), lines
            assert "query sessionize stopped: the state cannot be loaded: " in lines[-1], lines
            assert "'A file of the state is damaged'" in lines[-1]

        # The last committed micro-batch is repeated. The tables have its rows already, and take none twice.
        sessionize = job.checkpoints / "sessionize"
        for entry in (sessionize / "commits" / str(batch_id - 1), sessionize / "offsets" / str(batch_id)):
            entry.unlink()
            entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)
        run = scene.end()
    assert compare(run, spark) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(folder)]
    process = subprocess.run(mount, capture_output=True, text=True, check=False)
    if process.returncode:
        pytest.skip(f"no file system of its own can be mounted here: {process.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(ballast_file: Path) -> None:
    with ballast_file.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def test_a_full_disk_ends_the_job_and_loses_nothing(small_disk: Path, tmp_path: Path, spark: SparkSession) -> None:
    scene = Scene(1, 2, small_disk)
    job, ballast_file = scene.job, small_disk / "ballast"
    job.stderr = tmp_path / "stderr.txt"
    with job:
        scene.cut(Boundary.AT_RANDOM)
        line_count = len(job.output_lines())
        rollup = last_committed(job.checkpoints / "rollup")
        job.start()
        # rollup is the last query to start.
        job.wait_until(lambda: last_committed(job.checkpoints / "rollup") > rollup, "all queries run", poll_s=0.05)
        fill(ballast_file)
        assert job.wait_for_end(within_s=180) == 1
        assert "No space left on device" in job.output_lines()[-1]
        new_lines = job.output_lines()[line_count:]
        assert all(line.startswith("sessionize: ") for line in new_lines), new_lines

        # The disk is still full: the job does not start, and says so.
        line_count = len(job.output_lines())
        job.start()
        assert job.wait_for_end(within_s=180) in (1, 2)
        assert "No space left on device" in job.output_lines()[-1]

        ballast_file.unlink()
        run = scene.end()
    assert compare(run, spark) == []


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
