"""The demo's tables, and the notebooks run on them, once for all tests."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization_laptop import notebook_data, player_week
from tests.support.headless import Executed, execute, project_entries

IN_A_KERNEL = ("01_tour", "02_sessionize", "05_compare_runs")


@pytest.fixture(scope="session", autouse=True)
def entries_before() -> set[Path]:
    """The files and folders of the project before any notebook ran."""
    return project_entries()


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A folder as `make notebook-data` fills it, with fewer sessions and shorter runs.

    With this much dirt the first file alone brings corrected ends, so each picture shows something on a slow machine.
    """
    folder = tmp_path_factory.mktemp("notebooks") / "an evening"  # with a space, as in the paths of users
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}")
        notebook_data.load_demo_tables(folder, live=60, dirt=0.3, run_for_ms=20_000)
    return folder


@pytest.fixture(scope="session")
def week(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A warehouse with the week of the notebook 07_players."""
    return player_week.load_week(spark, tmp_path_factory.mktemp("players") / "week", lambda _: None)


@pytest.fixture(scope="session")
def executed(demo: Path) -> dict[str, Executed]:
    """The tour first; the job's run goes into an experiment of another name.

    The others need no kernel of their own: test_any_compute.py runs them, and their first cell is that of these.
    """
    return execute(IN_A_KERNEL, demo, {"run-for": "8s", "heartbeat": "2s", "mlflow": "evenings/by hand"})
