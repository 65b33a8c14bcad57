"""Notebooks and jobs without a stream run on any compute: over Spark Connect, in a process that has no JVM."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("grpc_status", reason="Spark Connect's client is not installed: make test-notebooks installs it")

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES, SESSION_PREDICTIONS, SESSIONS
from tests.notebooks.spark_connect import CATALOG
from tests.support.headless import ROOT, SHOWN
from tests.support.metrics_endpoint import free_port

pytestmark = pytest.mark.job

MODULE = [sys.executable, "-m", "tests.notebooks.spark_connect"]
READ, CHANGED = "games", "changed"


@pytest.fixture(scope="module")
def copied(demo: Path) -> Path:
    """A copy of the demo's folder, for jobs that change tables."""
    return Path(shutil.copytree(demo, demo.with_name("changed-by-jobs")))


@pytest.fixture(scope="module")
def checkpoints(demo: Path) -> Path:
    """The demo's checkpoints, by a path without a space: in a workspace there is none. State cannot be copied."""
    link = demo.with_name("linked")
    link.symlink_to(demo)
    return link / "checkpoints"


@pytest.fixture(scope="module")
def address(demo: Path, copied: Path) -> Iterator[str]:
    """The address of a server that knows the tables of the demo and of its copy as folders and in a schema each."""
    port = free_port()
    warehouses = {READ: str(demo / "warehouse"), CHANGED: str(copied / "warehouse")}
    command = [*MODULE, "serve", str(port), json.dumps(warehouses)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        assert server.stdout.readline() == "ready\n"
        yield f"sc://127.0.0.1:{port}"
        server.stdin.close()


def run(demo: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a notebook or a job in a process without Java."""
    environment = os.environ | {
        "DATABRICKS_RUNTIME_VERSION": "client.4.0",  # as in a workspace, the first cell does nothing
        "MLFLOW_TRACKING_URI": f"sqlite:///{demo / 'mlflow.db'}",
        "JAVA_HOME": "/nowhere",
    }
    return subprocess.run([*MODULE, *words], cwd=ROOT, env=environment, check=False, capture_output=True, text=True)


def shown(name: str, address: str, demo: Path, widgets: dict[str, str]) -> tuple[int, int]:
    """The numbers of pictures and of tables that a notebook shows."""
    done = run(demo, "run", name, address, json.dumps(widgets))
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout.splitlines()[-1])
    return counts["Figure"], counts["table"]


def job(name: str, address: str, copied: Path, *options: str) -> str:
    """What a job prints that changes the tables of the copy, or reads them."""
    done = run(copied, "job", name, address, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


IN_CATALOG = (f"--catalog={CATALOG}", f"--schema={CHANGED}")


def test_the_tables_of_a_catalog_are_shown_without_a_jvm(address: str, demo: Path) -> None:
    widgets = {"catalog": CATALOG, "schema": READ}
    assert shown("03_query_sessions", address, demo, widgets) == SHOWN["03_query_sessions"]


def test_the_state_is_shown_without_a_jvm(address: str, demo: Path, checkpoints: Path) -> None:
    widgets = {"catalog": CATALOG, "schema": READ, "checkpoints": str(checkpoints)}
    assert shown("04_inspect_state", address, demo, widgets) == SHOWN["04_inspect_state"]


def test_runs_are_compared_without_a_jvm(address: str, demo: Path) -> None:
    assert shown("05_compare_runs", address, demo, {}) == SHOWN["05_compare_runs"]


def test_forecasts_are_made_and_shown_without_a_jvm(address: str, copied: Path, spark: SparkSession) -> None:
    widgets = {"catalog": CATALOG, "schema": CHANGED, "score-only": "false"}
    assert shown("06_predict_remaining", address, copied, widgets) == SHOWN["06_predict_remaining"]
    widgets["score-only"] = "true"
    assert shown("06_predict_remaining", address, copied, widgets) == SHOWN["06_predict_remaining"]
    predictions = TableLocation(copied / "warehouse").read(spark.read, SESSION_PREDICTIONS)
    assert {row.model_version for row in predictions.collect()} == {"1"}


def test_missing_tables_are_named_without_a_jvm(address: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=f"{tmp_path} does not hold session_changes, sessions"):
        shown("03_query_sessions", address, tmp_path, {"warehouse": str(tmp_path)})


def test_a_query_runs_without_a_jvm(address: str, copied: Path) -> None:
    sql = "SELECT count(*) > 0 AS has_rows FROM live_sessions"
    assert "True" in job("query", address, copied, f"--warehouse={copied / 'warehouse'}", f"--sql={sql}")


def test_the_state_is_checked_without_a_jvm(address: str, copied: Path, checkpoints: Path) -> None:
    printed = job("inspect_state", address, copied, f"--checkpoints={checkpoints}")
    assert printed.splitlines()[-1].endswith(" invariants hold")


def test_tables_are_maintained_without_a_jvm(address: str, copied: Path) -> None:
    printed = job("maintain", address, copied, *IN_CATALOG, f"--checkpoints={copied / 'checkpoints'}")
    assert "OPTIMIZE of session_changes is done" in printed
    assert "VACUUM of sessions is done" in printed
    assert "failed" not in printed


def test_an_account_is_erased_without_a_jvm(address: str, copied: Path, spark: SparkSession) -> None:
    location = TableLocation(copied / "warehouse")
    changes = location.read(spark.read, SESSION_CHANGES).where("account_id IS NOT NULL")
    account = str(changes.groupBy("account_id").count().orderBy(F.desc("count")).collect()[0].account_id)
    idle = copied / "idle"  # the job's checkpoints, without anything that it has not done
    idle.mkdir()
    shutil.copy(copied / "checkpoints" / "layout.json", idle)
    printed = job("erase_account", address, copied, *IN_CATALOG, f"--checkpoints={idle}", f"--account={account}")
    assert '"session_changes": 0' not in printed
    for table in (SESSION_CHANGES, SESSIONS):
        assert location.read(spark.read, table).where(F.col("account_id") == account).isEmpty()


def test_the_stream_is_refused_without_a_jvm_in_one_line(address: str, copied: Path, tmp_path: Path) -> None:
    options = (*IN_CATALOG, f"--input={copied / 'input'}", f"--checkpoints={tmp_path / 'checkpoints'}")
    done = run(copied, "job", "sessionize", address, *options)
    (line,) = (line for line in done.stderr.splitlines() if "dedicated access mode" in line)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, line)
    assert "Traceback" not in done.stderr
