"""The library with the packages of Databricks Runtime 19 and what the bundle installs, and no others.

Spark and Delta are their open-source releases, because the runtime's own builds are in no package index.
"""

import os
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.version import Version

from tests.repository.test_runtime_imports import sources
from tests.whole_job.job import ROOT, environment
from tools.bundle.pins import installed_with_the_wheel, runtime_versions

LANE = Path(sys.prefix) / "databricks" / "bin" / "python"
"""The Python that has the runtime's packages: `make .venv/.databricks` installs them."""

pytestmark = [pytest.mark.job, pytest.mark.skipif(not LANE.exists(), reason="make .venv/.databricks is to come first")]


def run(*words: str, **variables: str) -> str:
    """What a module prints in the lane."""
    given = {"PYTHONPATH": f"{ROOT / 'lib'}{os.pathsep}{ROOT}", **variables}
    done = subprocess.run(
        [LANE, *words], cwd=ROOT, env=environment(**given), check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_lane_has_the_runtimes_packages_and_no_other() -> None:
    expected = runtime_versions() | installed_with_the_wheel(frozenset({"forecast", "metrics", "kafka"}))
    found = {package.name: package.version for package in distributions(path=[str(site_packages())])}
    assert found.keys() >= {"pyspark", "pandas", "mlflow-skinny", "orjson", "prometheus_client"}
    for name, version in found.items():
        assert Version(version) == Version(expected[name.lower().replace("_", "-").replace(".", "-")]), name


def site_packages() -> Path:
    [folder] = (LANE.parents[1] / "lib").glob("python3*/site-packages")
    return folder


def test_every_module_that_runs_on_databricks_can_be_imported() -> None:
    modules = [
        path.removeprefix("lib/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path, _text in sources()
        if path.startswith("lib/")
    ]
    run("-c", "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]", *modules)
