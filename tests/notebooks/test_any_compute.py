"""Notebooks and jobs without a stream run on any compute: over Spark Connect, in a process that has no JVM."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("grpc_status", reason="Spark Connect's client is not installed: make test-notebooks installs it")

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import QUARANTINE, SESSION_CHANGES, SESSION_PREDICTIONS, SESSIONS
from tests.notebooks.spark_connect import CATALOG
from tests.support.headless import ROOT, SHOWN
from tests.support.metrics_endpoint import free_port

pytestmark = pytest.mark.job

MODULE = [sys.executable, "-m", "tests.notebooks.spark_connect"]
READ, CHANGED, PLAYED = "games", "changed", "played"


@pytest.fixture(scope="module")
def copied(demo: Path, spark: SparkSession) -> Path:
    """A copy of the demo's folder, for jobs that change tables. Each message in quarantine is no UTF-8."""
    copy = Path(shutil.copytree(demo, demo.with_name("changed-by-jobs")))
    spark.sql(f"UPDATE delta.`{copy / 'warehouse' / QUARANTINE.name}` SET value = X'7BFF7D'")
    return copy


@pytest.fixture(scope="module")
def checkpoints(demo: Path) -> Path:
    """The demo's checkpoints, by a path without a space: in a workspace there is none. State cannot be copied."""
    link = demo.with_name("linked")
    link.symlink_to(demo)
    return link / "checkpoints"


@pytest.fixture(scope="module")
def address(demo: Path, copied: Path, week: Path) -> Iterator[str]:
    """The address of a server that knows the tables of the demo, of its copy, and of a week of players.

    It knows them as folders, and in a schema each.
    """
    port = free_port()
    warehouses = {READ: str(demo / "warehouse"), CHANGED: str(copied / "warehouse"), PLAYED: str(week)}
    command = [*MODULE, "serve", str(port), json.dumps(warehouses)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        assert server.stdout.readline() == "ready\n"
        yield f"sc://127.0.0.1:{port}"
        server.stdin.close()


@dataclass(frozen=True)
class Outcome:
    """How a notebook or a job ended: its exit code, what it printed, and the number of outputs of each type."""

    code: int
    said: str
    shown: dict[str, int] | None

    @property
    def counts(self) -> tuple[int, int]:
        """The numbers of pictures and of tables."""
        assert self.shown is not None, self.said
        return self.shown["Figure"], self.shown["table"]


@pytest.fixture(scope="module")
def account(copied: Path, spark: SparkSession) -> str:
    """The account with the most changes."""
    changes = TableLocation(copied / "warehouse").read(spark.read, SESSION_CHANGES).where("account_id IS NOT NULL")
    return str(changes.groupBy("account_id").count().orderBy(F.desc("count")).collect()[0].account_id)


@pytest.fixture(scope="module")
def outcomes(address: str, copied: Path, checkpoints: Path, account: str) -> dict[str, Outcome]:
    """Notebooks and jobs run one after the other in one process without Java."""
    read, changed = {"catalog": CATALOG, "schema": READ}, {"catalog": CATALOG, "schema": CHANGED}
    in_catalog = [f"--catalog={CATALOG}", f"--schema={CHANGED}"]
    idle, nowhere = copied / "idle", copied / "nowhere"  # the checkpoints, without anything that is not done; nothing
    for folder in (idle, nowhere):
        folder.mkdir()
    shutil.copy(copied / "checkpoints" / "layout.json", idle)
    sql = "SELECT live >= 0 AS has_row FROM freshness"  # one for Spark
    steps: dict[str, tuple[str, str, object]] = {
        "03": ("notebook", "03_query_sessions", changed),
        "04": ("notebook", "04_inspect_state", read | {"checkpoints": str(checkpoints)}),
        "05": ("notebook", "05_compare_runs", {}),
        "06, trained": ("notebook", "06_predict_remaining", changed | {"score-only": "false"}),
        "06, scored": ("notebook", "06_predict_remaining", changed | {"score-only": "true"}),
        "07": ("notebook", "07_players", {"catalog": CATALOG, "schema": PLAYED}),
        "07 before the job players": ("notebook", "07_players", changed),
        "03 without tables": ("notebook", "03_query_sessions", {"warehouse": str(nowhere)}),
        "query": ("job", "query", [f"--warehouse={copied / 'warehouse'}", f"--sql={sql}"]),
        "inspect": ("job", "inspect_state", [f"--checkpoints={checkpoints}"]),
        "maintain": ("job", "maintain", [*in_catalog, f"--checkpoints={copied / 'checkpoints'}"]),
        "erase": ("job", "erase_account", [*in_catalog, f"--checkpoints={idle}", f"--account={account}"]),
        "stream": (
            "job", "sessionize", [*in_catalog, f"--input={copied / 'input'}", f"--checkpoints={nowhere / 'new'}"],
        ),
    }  # fmt: skip
    environment = os.environ | {
        "DATABRICKS_RUNTIME_VERSION": "client.4.0",  # as in a workspace, the first cell does nothing
        "MLFLOW_TRACKING_URI": f"sqlite:///{copied / 'mlflow.db'}",
        "JAVA_HOME": "/nowhere",
    }
    words = [*MODULE, "play", address, json.dumps(list(steps.values()))]
    done = subprocess.run(words, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"code": ')]
    return {name: Outcome(**line) for name, line in zip(steps, lines, strict=True)}


@pytest.mark.parametrize(
    ("step", "name"),
    [
        ("03", "03_query_sessions"),
        ("04", "04_inspect_state"),
        ("05", "05_compare_runs"),
        ("06, trained", "06_predict_remaining"),
        ("06, scored", "06_predict_remaining"),
        ("07", "07_players"),
    ],
)
def test_notebooks_show_their_pictures_and_tables_without_a_jvm(
    outcomes: dict[str, Outcome], step: str, name: str
) -> None:
    assert outcomes[step].counts == SHOWN[name]


def test_a_forecast_without_training_is_of_the_first_model(
    outcomes: dict[str, Outcome], copied: Path, spark: SparkSession
) -> None:
    predictions = TableLocation(copied / "warehouse").read(spark.read, SESSION_PREDICTIONS).collect()
    assert {row.model_version for row in predictions} == {"1"}


def test_missing_tables_are_named_without_a_jvm(outcomes: dict[str, Outcome], copied: Path) -> None:
    assert f"{copied / 'nowhere'} does not hold session_changes, sessions" in outcomes["03 without tables"].said


def test_tables_of_players_that_are_missing_are_named_without_a_jvm(outcomes: dict[str, Outcome]) -> None:
    said = outcomes["07 before the job players"].said
    assert f"{CATALOG}.{CHANGED} does not hold player_progress, player_first_days" in said
    assert "run the job players first" in said


@pytest.mark.parametrize(
    ("job", "says"),
    [
        ("query", ["true"]),
        ("inspect", ["the devices with the most entries"]),
        ("maintain", ["OPTIMIZE of session_changes is done", "VACUUM of sessions is done"]),
    ],
)
def test_jobs_run_without_a_jvm(outcomes: dict[str, Outcome], job: str, says: list[str]) -> None:
    assert outcomes[job].code == 0, outcomes[job].said
    assert all(text in outcomes[job].said for text in says)
    assert "failed" not in outcomes[job].said


def test_an_account_is_erased_without_a_jvm(
    outcomes: dict[str, Outcome], copied: Path, account: str, spark: SparkSession
) -> None:
    assert outcomes["erase"].code == 0, outcomes["erase"].said
    assert '"session_changes": 0' not in outcomes["erase"].said
    for table in (SESSION_CHANGES, SESSIONS):
        rows = TableLocation(copied / "warehouse").read(spark.read, table)
        assert rows.where(F.col("account_id") == account).isEmpty()


def test_the_stream_is_refused_without_a_jvm_in_one_line(outcomes: dict[str, Outcome]) -> None:
    assert outcomes["stream"].code == 2
    assert "dedicated access mode" in outcomes["stream"].said.splitlines()[-1]
    assert "Traceback" not in outcomes["stream"].said
