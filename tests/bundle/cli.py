"""Runs the real CLI in a copy of the project, against a simulated workspace."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.bundle.workspace.server import Workspace
from tools.bundle.sources import ROOT
from tools.bundle.targets import FOR_PLAYERS

_FOUND = shutil.which("databricks")
# nutter installs the old CLI, which knows no bundles. It is a script, so a script is not the CLI that these tests need.
BINARY = None if _FOUND is None or Path(_FOUND).read_bytes().startswith(b"#!") else _FOUND
needs_cli = pytest.mark.skipif(BINARY is None, reason="no databricks binary on PATH: install the CLI to run these")
_TIMEOUT_S = 300
_REQUIRED = {"catalog": "main", "node_type": "m6gd.xlarge"}
SUBSCRIBERS = [{"user_email": "lead@studio.example"}]
"""What `copy_project` gives to the targets for players: a list can be given in the file of overrides only."""


@dataclass(frozen=True, slots=True)
class Result:
    """The output of a CLI call, and the requests that it made."""

    out: str
    errors: str
    calls: list[tuple[str, str, int]]

    @property
    def everything(self) -> str:
        return self.out + self.errors


@dataclass(frozen=True, slots=True)
class Cli:
    """`cli("bundle", "deploy")` asserts success, `cli.refused("bundle", "deploy")` asserts failure.

    `variables` are the bundle variables in its environment.
    """

    project: Path
    workspace: Workspace
    variables: Mapping[str, str] = field(default_factory=lambda: {"on_call": "on-call@studio.example"})

    def __call__(self, *words: str) -> Result:
        return self._run(words, succeeds=True)

    def refused(self, *words: str) -> Result:
        return self._run(words, succeeds=False)

    def _run(self, words: tuple[str, ...], *, succeeds: bool) -> Result:
        earlier_calls = len(self.workspace.calls)
        process = subprocess.run(
            [str(BINARY), *words],
            cwd=self.project,
            env=self._environment(),
            stdin=subprocess.DEVNULL,  # no prompts
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        result = Result(process.stdout, process.stderr, self.workspace.calls[earlier_calls:])
        unknown_calls = self.workspace.unknown_calls
        report = f"{' '.join(words)} -> {process.returncode}\n{result.everything}\nunknown calls: {unknown_calls}"
        assert (process.returncode == 0) is succeeds, report
        assert unknown_calls == [], report
        return result

    def _environment(self) -> dict[str, str]:
        """The environment of a CLI call, without this machine's own CLI settings."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("DATABRICKS_", "BUNDLE_VAR_"))
        }
        # If the project's build tools are installed, they build the wheel: no call to a registry.
        build = {"BUILD": str(ROOT / ".venv-build/bin")} if (ROOT / ".venv-build/bin/.ready").exists() else {}
        return inherited | build | {
            "DATABRICKS_HOST": self.workspace.host,
            "DATABRICKS_TOKEN": "none",
            "DATABRICKS_CONFIG_FILE": str(self.project.parent / "no-profiles"),
            "HOME": str(self.project.parent),
        } | {f"BUNDLE_VAR_{name}": value for name, value in (_REQUIRED | dict(self.variables)).items()}  # fmt: skip


def copy_project(folder: Path, branch: str = "main") -> Path:
    """Copy the files that git does not ignore into a new repository, and commit them on `branch`.

    The targets for players get `SUBSCRIBERS`.
    """
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    for name in listing.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    author = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q", "-b", branch], ["add", "-A"], [*author, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    for target in FOR_PLAYERS:
        override(folder, target, alert_subscriptions=SUBSCRIBERS)
    return folder


def override(project: Path, target: str, **values: Any) -> None:
    file = project / f".databricks/bundle/{target}/variable-overrides.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(values))


def only(*targets: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("target", targets, indirect=True)
