"""A disk that is full: the job says so in one line and ends, and goes on as if nothing had been once there is room."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.e2e.checkpoints import last_committed
from tests.faults.boundaries import Boundary
from tests.faults.harness import Scene, compare

pytestmark = pytest.mark.long


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system of its own can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def test_a_full_disk(small_disk: Path, tmp_path: Path, spark: SparkSession) -> None:
    scene = Scene(1, 2, small_disk)
    job, ballast = scene.job, small_disk / "ballast"
    job.stderr = tmp_path / "stderr.txt"
    try:
        scene.cut(Boundary.AT_RANDOM)
        said = len(job.said())
        rollup = last_committed(job.checkpoints / "rollup")
        job.start()
        # It is the last of the queries to start.
        job.wait_until(lambda: last_committed(job.checkpoints / "rollup") > rollup, "all queries run", poll_s=0.05)
        fill(ballast)
        assert job.wait_for_end(within_s=180) == 1
        assert "No space left on device" in job.said()[-1]
        assert all(line.startswith("sessionize: ") for line in job.said()[said:]), job.said()[said:]

        # Still full: it does not start, and says so.
        said = len(job.said())
        job.start()
        assert job.wait_for_end(within_s=180) in (1, 2)
        assert "No space left on device" in job.said()[-1]

        ballast.unlink()
        run = scene.end()
    finally:
        job.kill_if_running()
    assert compare(run, spark) == []
