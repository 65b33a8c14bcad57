"""Without the laptop's package, as on a cluster, jobs start and say what is missing; the library never imports it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sessionization.errors import SetupError
from sessionization.spark.engine import local_start

ROOT = Path(__file__).parents[2]
JOBS = sorted(path.stem for path in (ROOT / "jobs").glob("*.py") if path.stem not in {"demo", "query"})
WITHOUT_LAPTOP = (
    "import runpy, sys; sys.modules['sessionization_laptop'] = None; "
    "runpy.run_path(sys.argv.pop(1), run_name='__main__')"
)


def run_without_laptop(job: str, *options: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Run a job of a process that cannot import the laptop's package."""
    words = [sys.executable, "-c", WITHOUT_LAPTOP, str(ROOT / f"jobs/{job}.py"), *options]
    left_out = ("SPARK_", "PYSPARK_", "DATABRICKS_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    environment = inherited | {"PYTHONPATH": str(ROOT / "lib")}
    return subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("job", JOBS)
def test_a_job_explains_itself_without_the_laptop(job: str, tmp_path: Path) -> None:
    done = run_without_laptop(job, "--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_job_that_finds_no_spark_says_so_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    options = ("--input=events", "--warehouse=tables", "--checkpoints=checkpoints", "--run-for=1s")
    done = run_without_laptop("sessionize", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("sessionize: there is no Spark session: run this with spark-submit")
    assert "Traceback" not in done.stderr


def test_the_newest_engine_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(local_start, "_starts", [])
    with pytest.raises(SetupError, match="make setup"):
        local_start.start_local_engine(tmp_path, {})
    for name in ("first", "second"):
        local_start.use_local_engine(lambda _log, _conf, name=name: name)  # type: ignore[misc]
    assert local_start.start_local_engine(tmp_path, {}) == "second"
