"""A job on HDFS, on S3, on a volume and in a catalog: no kill and no second driver loses or doubles a row."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from copy import copy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.boundaries import Boundary
from tests.support.checkpoints import last_committed
from tests.support.harness import compare, play
from tests.support.job import QUERIES, ROOT, Ended, Job, run_to_end
from tests.support.s3 import PYTHON, S3
from tests.support.storages import RemoteJob, check_preflight, evening_of, is_on_s3, job_on
from tests.support.three_kills import (
    EVENING,
    OPTIONS,
    check_every_row,
    play_with_a_driver_that_sleeps,
    play_with_a_kill_in_each_query,
)
from tests.support.volume import VolumeJob

pytestmark = pytest.mark.job

SEED = 20_260_102
_SCRIPT_S = 300
REFUSED = re.compile(r"lease 'stream' .* is held by sessionize \(process \d+ on \S+\)")
JOBS: dict[str, tuple[str, ...]] = {
    "maintain": ("--message-retention=1000d",),  # the evening is some months ago
    "erase_account": ("--account=nobody",),
    "backfill": ("--merge",),
    "rescale_state": ("--partitions=3",),
}
HDFS, CATALOG = (pytest.param(name, marks=pytest.mark.long) for name in ("hdfs", "catalog"))
NO_S3 = pytest.mark.skipif(not PYTHON.exists(), reason="needs make .venv/.s3")
ON_S3 = pytest.param("s3", marks=[pytest.mark.long, NO_S3])


@pytest.fixture
def job(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> Iterator[Job]:
    """A job on the storage of the parameter's name, which is started."""
    with ExitStack() as running:
        yield job_on(request.param, spark, tmp_path, running, *OPTIONS)


@pytest.mark.parametrize("job", [HDFS, ON_S3, CATALOG], indirect=True)
def test_a_job_that_is_killed_in_each_query_loses_and_doubles_nothing(
    job: Job, tmp_path: Path, spark: SparkSession
) -> None:
    play_with_a_kill_in_each_query(job, evening_of(job, tmp_path, **EVENING))
    warned = any("S3SingleDriverLogStore lets a commit of one driver replace" in line for line in job.output_lines())
    assert warned is is_on_s3(job)
    check_every_row(job, spark)


@pytest.mark.long
def test_a_job_on_a_volume_that_is_killed_at_every_boundary_loses_and_doubles_nothing(
    tmp_path: Path, spark: SparkSession
) -> None:
    run = play(SEED, len(Boundary), tmp_path, kind=VolumeJob)
    assert compare(run, spark) == []
    assert any(cut.is_exact for cut in run.cuts)


@pytest.mark.long
@pytest.mark.parametrize("job", ["hdfs", "volume"], indirect=True)
def test_a_driver_that_slept_longer_than_its_lease_writes_nothing_more(
    job: Job, tmp_path: Path, spark: SparkSession
) -> None:
    second = copy(job)
    second.stderr = tmp_path / "second.txt"
    play_with_a_driver_that_sleeps(job, second, evening_of(job, tmp_path, **EVENING))
    check_every_row(second, spark)


def run_script(job: Job, name: str, code: int, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """Run a script of `jobs/` with the job's options until it ends with this code; return what it said."""
    job.entry = (ROOT / "jobs" / name,)
    job.start()
    assert job.wait_for_end(within_s=_SCRIPT_S) == code, job.output_lines()[-5:]
    return [*capfd.readouterr().out.splitlines(), *job.output_lines()]


@pytest.mark.parametrize("job", ["volume", HDFS, ON_S3, CATALOG], indirect=True)
def test_the_preflight_finds_the_storage_fit_and_says_what_s3_does_not_promise(
    job: Job, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    job.release(evening_of(job, tmp_path, **EVENING), 1)
    check_preflight(job, run_script(job, "preflight.py", 0, capfd))


def run_job(name: str, stream: Job, folder: Path) -> Ended:
    """Run a job of `JOBS` on the tables and the checkpoint of the stream."""
    tables = () if name == "rescale_state" else stream.table_options()
    places = (*tables, "--checkpoints", stream.location_of(stream.checkpoints))
    script = ROOT / "jobs" / f"{name}.py"
    return run_to_end(*places, *JOBS[name], cwd=folder, entry=(script,), has_output=name == "erase_account")


@pytest.mark.parametrize("job", [HDFS], indirect=True)
def test_jobs_that_change_the_tables_are_refused_while_the_stream_runs_and_change_no_row_after_it(
    job: Job, tmp_path: Path, spark: SparkSession
) -> None:
    evening = evening_of(job, tmp_path, **EVENING)
    job.release(evening, 20)
    job.start()
    queries = [job.checkpoints / query for query in QUERIES]
    job.wait_until(lambda: all(last_committed(query) >= 0 for query in queries), "each query has a micro-batch")
    for name in JOBS:
        refused = run_job(name, job, tmp_path)
        assert refused.code == 2, (name, refused.lines)
        assert REFUSED.search(refused.lines[-1]), (name, refused.lines)
    # The backfill replays messages in the order of their files' times. A job that runs may list a folder while files
    # are copied into it, and read a later file first.
    assert job.terminate() == 0
    job.release(evening)
    job.start()
    job.wait_until_done()
    assert job.terminate() == 0
    for name in JOBS:
        ended = run_job(name, job, tmp_path)
        assert ended.code == 0, (name, ended.lines)
    check_every_row(job, spark)


@pytest.mark.parametrize("job", [ON_S3], indirect=True)
@pytest.mark.parametrize(
    ("uri", "settings", "said"),
    [
        ("s3a://nobodys", {}, "the bucket does not exist"),
        (S3.uri, {"spark.hadoop.fs.s3a.access.key": "stranger"}, "403"),
    ],
    ids=["no-such-bucket", "wrong-key"],
)
@pytest.mark.parametrize("entry", ["sessionize.py", "preflight.py"])
def test_a_mistake_on_s3_is_said_in_one_clear_line(
    job: RemoteJob, entry: str, uri: str, settings: dict[str, str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    job.uri = uri
    job.conf = job.conf | settings
    lines = run_script(job, entry, 2, capfd)
    assert not any("Traceback" in line or line.startswith("\tat ") for line in lines)
    assert any(said in line for line in lines), lines
