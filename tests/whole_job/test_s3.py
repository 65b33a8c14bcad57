"""The job with its input, tables and checkpoints on S3: no kill loses or doubles a row, and mistakes are one line."""

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from tests.support.evening import Evening
from tests.support.remote_job import RemoteJob
from tests.support.s3 import BUCKET, PYTHON, S3
from tests.support.three_kills import EVENING, OPTIONS, check_every_row, play_with_a_kill_in_each_query

pytestmark = [
    pytest.mark.job,
    pytest.mark.long,
    pytest.mark.skipif(not PYTHON.exists(), reason="needs make .venv/.s3"),
]


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3]:
    with S3(tmp_path / "s3") as running:
        yield running


@pytest.fixture
def bucket() -> str:
    """The bucket that the job is given. A test's parameter of this name replaces it."""
    return BUCKET


@pytest.fixture
def job(tmp_path: Path, s3: S3, bucket: str) -> Iterator[RemoteJob]:
    storage = SimpleNamespace(uri=f"s3a://{bucket}", files=s3.files, look_every_s=s3.look_every_s)
    job = RemoteJob(tmp_path, storage, *OPTIONS)
    job.conf = s3.settings()
    with job:
        yield job


def test_a_job_on_s3_that_is_killed_in_each_query_loses_and_doubles_nothing(
    job: RemoteJob, s3: S3, tmp_path: Path, spark: SparkSession
) -> None:
    # S3 takes no modification time: the messages are as old as the files that hold them.
    evening = Evening(tmp_path / "staging", time.time_ns() // 1_000_000, **EVENING)
    play_with_a_kill_in_each_query(job, evening)
    assert any(
        "S3SingleDriverLogStore lets a commit of one driver replace another's" in line for line in job.output_lines()
    )
    s3.let_reach(spark)
    check_every_row(job, spark)


def test_the_preflight_finds_s3_fit_and_says_what_it_does_not_promise(
    job: RemoteJob, s3: S3, capfd: pytest.CaptureFixture[str]
) -> None:
    s3.files.write(f"{job.input}/pc_sessions/1.json", b"")
    lines = job.run_script("preflight.py", 0, capfd)
    [warning] = [line for line in lines if line.startswith(("FAILED", "warning"))]
    assert warning.startswith("warning  lease: on S3 the log store")


@pytest.mark.parametrize(
    ("settings", "bucket", "said"),
    [
        ({}, "nobodys", "the bucket does not exist"),
        ({"spark.hadoop.fs.s3a.access.key": "stranger"}, BUCKET, "403"),
    ],
    ids=["no-such-bucket", "wrong-key"],
)
@pytest.mark.parametrize("entry", ["sessionize.py", "preflight.py"])
def test_a_mistake_is_said_in_one_clear_line(
    job: RemoteJob, s3: S3, entry: str, settings: dict[str, str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    job.conf = s3.settings() | settings
    lines = job.run_script(entry, 2, capfd)
    assert not any("Traceback" in line or line.startswith("\tat ") for line in lines)
    assert any(said in line for line in lines), lines
