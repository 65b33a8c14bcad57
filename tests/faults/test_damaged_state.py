"""A changelog of the state that cannot be read: which one is harmless, what a person is told, and what gets it going."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.faults.boundaries import Boundary
from tests.faults.harness import Scene, compare

pytestmark = pytest.mark.long


def changelog(scene: Scene, version: int) -> Path:
    """A partition's changes that lead to a version; micro-batch N makes version N + 1."""
    return scene.job.checkpoints / "sessionize" / "state" / "0" / "0" / f"{version}.changelog"


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def test_a_damaged_changelog(tmp_path: Path, spark: SparkSession) -> None:
    scene = Scene(1, 2, tmp_path)
    job = scene.job
    try:
        scene.cut(Boundary.AT_RANDOM)
        # That of a micro-batch that was not committed is written anew.
        scene.cut(Boundary.STATE_COMMITTED)
        batch_id, _ = scene.traces.stage()
        cut_short(changelog(scene, batch_id + 1))

        scene.cut(Boundary.OFFSET_LOGGED)
        batch_id, _ = scene.traces.stage()
        newest = changelog(scene, batch_id)
        whole = newest.read_bytes()
        for damage in (cut_short, flipped):
            newest.write_bytes(whole)
            damage(newest)
            said = len(job.said())
            job.start()
            assert job.wait_for_end(within_s=120) == 1
            told = [line for line in job.said()[said:] if not line.startswith("sessionize: starting")]
            assert all(line.startswith("sessionize: ") for line in told), told
            assert "query sessionize stopped: the state cannot be loaded: " in told[-1], told
            assert "'A file of the state is damaged'" in told[-1]

        # The last micro-batch that was committed is repeated; the tables have its rows, and take none twice.
        sessionize = job.checkpoints / "sessionize"
        for entry in (sessionize / "commits" / str(batch_id - 1), sessionize / "offsets" / str(batch_id)):
            entry.unlink()
            entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)
        run = scene.end()
    finally:
        job.kill_if_running()
    assert compare(run, spark) == []
