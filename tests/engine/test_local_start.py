"""Without Spark, or without the laptop's package, jobs say what is missing; with both a local engine is started."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from sessionization.errors import SetupError
from sessionization.spark.engine import local_start
from sessionization_laptop.engine import local_session
from sessionization_laptop.engine.local_session import names_of_settings

ROOT = Path(__file__).parents[2]
JOBS = sorted(path.stem for path in (ROOT / "jobs").glob("*.py"))
WITHOUT = (
    "import runpy, sys; sys.modules |= dict.fromkeys(sys.argv.pop(1).split(',')); "
    "runpy.run_path(sys.argv.pop(1), run_name='__main__')"
)
LAPTOP, SPARK = "sessionization_laptop", "pyspark,py4j"


def run_without(packages: str, job: str, *options: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Run a job of a process that cannot import some packages."""
    words = [sys.executable, "-c", WITHOUT, packages, str(ROOT / f"jobs/{job}.py"), *options]
    left_out = ("SPARK_", "PYSPARK_", "DATABRICKS_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    environment = inherited | {"PYTHONPATH": str(ROOT / "lib")}
    return subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("job", JOBS)
def test_a_job_explains_itself_without_spark(job: str, tmp_path: Path) -> None:
    done = run_without(f"{LAPTOP},{SPARK}", job, "--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("packages", "line"),
    [
        (LAPTOP, "there is no Spark session: run this with spark-submit"),
        (SPARK, "Spark is not installed here: install this package with its extra local"),
    ],
)
def test_a_job_that_finds_no_spark_says_so_in_a_line(packages: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    options = ("--input=events", "--warehouse=tables", "--checkpoints=checkpoints", "--run-for=1s")
    done = run_without(packages, "sessionize", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"sessionize: {line}")
    assert "Traceback" not in done.stderr


def test_the_newest_engine_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(local_start, "_starts", [])
    with pytest.raises(SetupError, match="make setup"):
        local_start.start_local_engine(tmp_path, {})
    for name in ("first", "second"):
        local_start.use_local_engine(lambda _log, _conf, name=name: name)  # type: ignore[misc]
    assert local_start.start_local_engine(tmp_path, {}) == "second"


def test_every_way_to_give_a_setting_is_known() -> None:
    submit_args = """--conf a.b=1 --conf=c.d=x=y --conf "e.fG=2 3" --driver-memory 4g pyspark-shell"""
    assert names_of_settings(submit_args) == {"a.b", "c.d", "e.fG"}


@pytest.mark.spark
def test_a_local_engine_creates_its_folders_next_to_its_log(spark: SparkSession) -> None:
    spark.sql("CREATE DATABASE of_this_test")
    try:
        (created,) = (row.locationUri for row in spark.catalog.listDatabases() if row.name == "of_this_test")
    finally:
        spark.sql("DROP DATABASE of_this_test")
    folder = Path(urlsplit(created).path).parent
    assert folder.name == "spark-warehouse"
    assert (folder.parent / "engine.log").is_file()
    assert folder.parent != Path.cwd()


def test_a_java_that_ends_at_its_start_is_explained_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(**_: object) -> None:
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr(SparkContext, "_ensure_initialized", end)
    with pytest.raises(SetupError, match=r"engine\.out says why at its end; PYSPARK_SUBMIT_ARGS"):
        local_session._start_jvm({}, tmp_path / "engine.out")
