"""Nutter's unmodified CLI runs the workspace tests on this machine; these tests check its JUnit report."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from sessionization_laptop.engine.local_session import SHORT_LIVED_JVM_OPTIONS

pytestmark = pytest.mark.job

pytest.importorskip("runtime.nutterfixture", reason="nutter is not installed: make notebooks installs it")

ROOT = Path(__file__).parents[2]
TESTS = {
    "test_stream": (
        "1_starts_and_stops", "2_tables_match", "3_session_opens", "4_session_beats", "5_session_ends",
        "6_replay_changes_nothing",
    ),
    "test_deployment": ("1_tables_exist", "2_tables_match", "3_views_answer", "4_permissions"),
}  # fmt: skip
_LONGEST_S = 600


def nutter(cwd: Path, pattern: str, /, **parameters: Path | str) -> tuple[int, str, dict[str, str | None]]:
    """Run the CLI on the notebooks whose names match the pattern.

    Returns:
        The exit code, the output, and for each test of the report (`NOTEBOOK: TEST`) its failure, None if it passed.
    """
    command = [sys.executable, "-m", "tests.notebooks.nutter_workspace", "run", pattern, "local", "--junit_report"]
    if parameters:
        command += ["--notebook_params", json.dumps({name: str(value) for name, value in parameters.items()})]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("DATABRICKS_", "SESSIONIZATION_"))
    }
    environment |= {
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "lib"))),
        "JAVA_TOOL_OPTIONS": SHORT_LIVED_JVM_OPTIONS,
        "MLFLOW_TRACKING_URI": f"sqlite:///{cwd / 'mlflow.db'}",
    }
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=_LONGEST_S
    )
    printed = done.stdout + done.stderr
    reports = list(cwd.glob("test-nutter*.xml"))
    assert len(reports) == 1, f"{len(reports)} JUnit reports: {printed[-2000:]}"
    failures: dict[str, str | None] = {}
    for case in ET.parse(reports[0]).getroot().iter("testcase"):
        failure = case.find("failure")
        name = f"{Path(str(case.get('classname'))).name}: {case.get('name')}"
        failures[name] = None if failure is None else f"{failure.get('message')} {failure.text}"
    return done.returncode, printed, failures


def names_of(*notebooks: str) -> set[str]:
    return {f"{notebook}: {name}" for notebook in notebooks for name in TESTS[notebook]}


def test_the_demos_tables_pass_the_tests_of_a_deployment(tmp_path: Path, demo: Path) -> None:
    pattern = str(ROOT / "tests/nutter/deployment")
    trial = tmp_path / "no trial"
    code, printed, failures = nutter(tmp_path, pattern, folder=trial, warehouse=demo / "warehouse")
    assert failures == dict.fromkeys(names_of("test_deployment")), printed
    assert code == 0, printed


@pytest.mark.long
def test_the_stream_passes_its_tests(tmp_path: Path) -> None:
    trial = tmp_path / "trial"
    code, printed, failures = nutter(
        tmp_path, str(ROOT / "tests/nutter/stream"), folder=trial, warehouse=tmp_path / "warehouse"
    )
    assert failures == dict.fromkeys(names_of("test_stream")), printed
    assert code == 0, printed
    assert not list(trial.iterdir()), "the trial left something behind"
