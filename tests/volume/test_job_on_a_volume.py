"""The job with input, tables and checkpoints on a volume: no kill and no second driver loses or doubles a row."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.boundaries import Boundary
from tests.support.evening import Evening
from tests.support.harness import compare, play
from tests.support.three_kills import EVENING, OPTIONS, check_every_row, play_with_a_driver_that_sleeps
from tests.support.volume import VolumeJob

pytestmark = pytest.mark.job

SEED = 20_260_102


@pytest.fixture
def job(tmp_path: Path) -> Iterator[VolumeJob]:
    with VolumeJob(tmp_path, *OPTIONS) as job:
        yield job


@pytest.mark.long
def test_a_job_on_a_volume_that_is_killed_at_every_boundary_loses_and_doubles_nothing(
    tmp_path: Path, spark: SparkSession
) -> None:
    run = play(SEED, len(Boundary), tmp_path, kind=VolumeJob)
    assert compare(run, spark) == []
    assert any(cut.is_exact for cut in run.cuts)


@pytest.mark.long
def test_a_driver_that_slept_longer_than_its_lease_writes_nothing_more_on_a_volume(
    job: VolumeJob, tmp_path: Path, spark: SparkSession
) -> None:
    second = VolumeJob(tmp_path, *OPTIONS)
    second.stderr = tmp_path / "second.txt"
    play_with_a_driver_that_sleeps(job, second, Evening(tmp_path / "staging", **EVENING))
    check_every_row(second, spark)


def test_the_preflight_finds_the_volume_fit(job: VolumeJob, capfd: pytest.CaptureFixture[str]) -> None:
    lines = job.run_script("preflight.py", 0, capfd)
    assert [line for line in lines if line.startswith(("FAILED", "warning"))] == []
