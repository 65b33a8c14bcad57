"""What the host of the repository reads: workflows and forms, by the host's own schemas, without a network."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
CONFIG = GITHUB / "ISSUE_TEMPLATE" / "config.yml"
FORMS = sorted(file for file in CONFIG.parent.glob("*.yml") if file != CONFIG)


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", WORKFLOWS),
        ("custom.github-workflows-require-timeout", WORKFLOWS),
        ("vendor.dependabot", [GITHUB / "dependabot.yml"]),
        ("vendor.github-issue-config", [CONFIG]),
        ("vendor.github-issue-forms", FORMS),
    ],
)
def test_files_fit_their_schema(schema: str, files: list[Path]) -> None:
    assert files
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, files)]
    checked = subprocess.run(command, check=False, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda workflow: workflow.name)
def test_a_workflow_pins_each_action_by_hash_and_says_its_version(workflow: Path) -> None:
    actions = re.findall(r"uses: (.*)", workflow.read_text(encoding="utf-8"))
    assert actions
    assert [action for action in actions if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda workflow: workflow.name)
def test_a_workflow_may_write_only_what_a_job_says(workflow: Path) -> None:
    text = workflow.read_text(encoding="utf-8")
    assert re.search(r"^permissions:( \{\}|\n  contents: read)\n\n", text, re.MULTILINE)
    assert "pull_request_target" not in text  # it runs a stranger's code with the rights of the repository


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda workflow: workflow.name)
def test_a_workflow_calls_targets_of_the_makefile(workflow: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"run: make ([a-z-]+)", workflow.read_text(encoding="utf-8"))) <= targets
