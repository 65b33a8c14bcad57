"""The bundle through the real CLI, where there is one: validate strictly, deploy, deploy again, destroy.

The CLI comes from no package registry. With a `databricks` binary on PATH these tests talk to a workspace of their own on
127.0.0.1; without one they are skipped, and say so.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bundle.sources import ROOT
from tests.bundle.workspace.server import PERSON, PRINCIPAL, Workspace, served

CLI = shutil.which("databricks")
pytestmark = pytest.mark.skipif(CLI is None, reason="no databricks binary on PATH: install the CLI to run these")

IDENTITY = {"dev": PERSON, "staging": PRINCIPAL, "prod": PRINCIPAL, "continuous": PRINCIPAL}
KINDS = {"jobs": 3, "dashboards": 1, "alerts": 4}
_SECONDS = 300


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project's files as git has them, on the branch that prod is deployed from, and nothing else."""
    folder = tmp_path / "project"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    author = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], [*author, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


@pytest.fixture(params=IDENTITY)
def target(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def workspace(target: str) -> Iterator[Workspace]:
    with served(Workspace(IDENTITY[target])) as running:
        yield running


def databricks(project: Path, workspace: Workspace, *words: str) -> str:
    """Run the CLI; nothing of this machine's own set-up of it plays a part."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DATABRICKS_", "BUNDLE_VAR_"))}
    # The project's own tools build the wheel, where they are: no registry is asked.
    build = {"BUILD": str(ROOT / ".venv-build/bin")} if (ROOT / ".venv-build/bin/.ready").exists() else {}
    environment = kept | build | {
        "DATABRICKS_HOST": workspace.host,
        "DATABRICKS_TOKEN": "none",
        "DATABRICKS_CONFIG_FILE": str(project.parent / "no-profiles"),
        "DATABRICKS_BUNDLE_ENGINE": "direct",
        "HOME": str(project.parent),
    }  # fmt: skip
    ran = subprocess.run(
        [str(CLI), *words], cwd=project, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    told = f"{' '.join(words)} -> {ran.returncode}\n{ran.stdout}\n{ran.stderr}\nnot played: {workspace.unknown_calls}"
    assert ran.returncode == 0, told
    return ran.stdout + ran.stderr


def test_validate_is_silent(project: Path, workspace: Workspace, target: str) -> None:
    told = databricks(project, workspace, "bundle", "validate", "--strict", "-t", target)
    assert not any(word in told for word in ("Error", "Warning", "Recommendation")), told


def test_deploy_again_and_destroy(project: Path, workspace: Workspace, target: str) -> None:
    databricks(project, workspace, "bundle", "deploy", "-t", target)
    made = {kind: len(getattr(workspace.assets, kind)) for kind in KINDS}
    assert made == KINDS
    assert len(workspace.catalog.schemas) == 1
    assert len(workspace.catalog.volumes) == 2
    sent = json.dumps(list(workspace.assets.jobs.values()))
    assert "${" not in sent, "a reference was not put in"

    before = json.dumps([workspace.assets.jobs, workspace.assets.dashboards, workspace.assets.alerts], default=str)
    calls = len(workspace.calls)
    databricks(project, workspace, "bundle", "deploy", "-t", target)
    changed = [
        (method, path)
        for method, path, _status in workspace.calls[calls:]
        if method != "GET" and any(part in path for part in ("/jobs/", "/lakeview/", "/alerts", "/unity-catalog/"))
    ]
    assert changed == []
    assert (
        json.dumps([workspace.assets.jobs, workspace.assets.dashboards, workspace.assets.alerts], default=str) == before
    )

    databricks(project, workspace, "bundle", "destroy", "-t", target, "--auto-approve")
    assert not any(
        (workspace.assets.jobs, workspace.assets.dashboards, workspace.assets.alerts, workspace.catalog.schemas)
    )
