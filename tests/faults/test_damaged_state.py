"""An unreadable changelog of the state: which one is harmless, which message the job prints, and how to repair it."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.boundaries import Boundary
from tests.support.harness import Scene, compare

pytestmark = [pytest.mark.job, pytest.mark.long]


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
