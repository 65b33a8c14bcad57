"""On a full disk the job says so in one line and ends. Once there is space, it continues without loss."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.boundaries import Boundary
from tests.support.checkpoints import last_committed
from tests.support.harness import Scene, compare

pytestmark = [pytest.mark.job, pytest.mark.long]


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
