"""Every command of the CLI that the documentation gives, through the real CLI."""

import re
from pathlib import Path

import pytest

from tests.bundle.cli import Cli, copy_project, needs_cli
from tests.bundle.workspace.server import PRINCIPAL, Workspace, served
from tools.bundle.sources import ROOT

pytestmark = needs_cli

_COMMAND = re.compile(r"(?:^ *|`)databricks ([a-z][^`#\n|]*)", re.MULTILINE)
_PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
COMMANDS = dict.fromkeys(match.strip() for page in _PAGES for match in _COMMAND.findall(page.read_text("utf-8")))
NOT_RUN = {
    "auth login --host https://YOUR-WORKSPACE --profile NAME": "a person signs in with a browser",
    "bundle run": "names a command, and is none",
}
CLUSTER = "0101-000000-abcdefgh"


def deployed(project: Path, workspace: Workspace) -> Cli:
    """A CLI whose workspace has the targets dev and prod, a checkpoint and a cluster's logs; and what commands copy."""
    cli = Cli(project, workspace)
    for target in ("dev", "prod"):
        cli("bundle", "deploy", "-t", target)
    for file in ("checkpoints/sessionize/layout.json", f"logs/sessionize/{CLUSTER}/driver/stderr"):
        path = f"/Volumes/main/gaming_sessions_prod/{file}"
        workspace.tree.make_folder(path.rpartition("/")[0])
        workspace.tree.write(path, b"1", overwrite=False)
    (project / "stop").touch()  # the file that a stop copies
    return cli


def words(command: str, workspace: Workspace) -> list[str]:
    """The words of a command with values for its placeholders; a question is answered in advance."""
    job_id = next(key for key, job in workspace.assets.jobs.items() if job["settings"]["name"] == "sessionize prod")
    values = {
        "TARGET": "prod", "NAME": "maintain", "ID": job_id, "CATALOG": "main", "SCHEMA": "gaming_sessions_prod",
        "CLUSTER": CLUSTER,
    }  # fmt: skip
    filled = re.sub(r"\b[A-Z]{2,}\b", lambda match: values.get(match[0], match[0]), command)
    return [*filled.split(), *(["--auto-approve"] if command == "bundle destroy" else [])]


def test_every_command_of_the_documentation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = tmp_path / "bin/xdg-open"
    browser.parent.mkdir()
    browser.write_text("#!/bin/sh\n")
    browser.chmod(0o755)
    monkeypatch.setenv("PATH", str(browser.parent), prepend=":")
    with served(Workspace(PRINCIPAL)) as workspace:
        cli = deployed(copy_project(tmp_path / "project"), workspace)
        # In the order of the pages, and a destroy last.
        for command in sorted(COMMANDS, key="bundle destroy".__eq__):
            if command not in NOT_RUN:
                cli(*words(command, workspace))


def test_the_documentation_has_the_commands_that_are_not_run() -> None:
    assert COMMANDS.keys() > NOT_RUN.keys()
