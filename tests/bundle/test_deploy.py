"""`make deploy` looks at what a target is given, and deploys nothing where that is wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bundle.test_given import given
from tools.bundle.sources import ROOT

# The CLI as far as it matters here: it keeps the words that it was called with, and shows what a target is given.
CLI = """#!/bin/sh
echo "$*" >> "$NOTES/calls"
case "$*" in
  "$REFUSED"*) echo "Error: no" >&2; exit 1 ;;
  *"-o json") cat "$NOTES/given.json" ;;
esac
"""
STRICT, SHOWN, DEPLOY = "bundle validate --strict -t prod", "bundle validate -t prod -o json", "bundle deploy -t prod"


def deployed(folder: Path, shown: dict[str, Any], *words: str, refused: str = "none") -> tuple[int, list[str], str]:
    """The exit code of `make deploy T=prod`, what the CLI was called with, and what was said."""
    cli = folder / "databricks"
    cli.write_text(CLI)
    cli.chmod(0o755)
    (folder / "given.json").write_text(json.dumps(shown))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # from `make test`
    ran = subprocess.run(
        # With this environment, which needs no set-up.
        ["make", "--old-file=.venv/.ready", f"BIN={Path(sys.executable).parent}", "deploy", "T=prod", *words],
        cwd=ROOT,
        env=inherited | {"PATH": f"{folder}:{os.environ['PATH']}", "NOTES": str(folder), "REFUSED": refused},
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, (folder / "calls").read_text().splitlines(), ran.stdout + ran.stderr


def test_what_is_right_is_deployed(tmp_path: Path) -> None:
    assert deployed(tmp_path, given()) == (0, [STRICT, SHOWN, DEPLOY], "")


def test_what_only_the_job_would_refuse_is_not(tmp_path: Path) -> None:
    code, calls, said = deployed(tmp_path, given(sessionize_heartbeat="30sec"))
    assert code != 0
    assert calls == [STRICT, SHOWN]
    assert "--heartbeat '30sec'" in said


@pytest.mark.parametrize(("refused", "calls"), [(STRICT, [STRICT]), (SHOWN, [STRICT, SHOWN])])
def test_nor_is_what_the_cli_refuses(tmp_path: Path, refused: str, calls: list[str]) -> None:
    code, called, said = deployed(tmp_path, given(), refused=refused)
    assert code != 0
    assert called == calls
    assert "Error: no" in said


def test_what_else_is_said_goes_to_the_cli_each_time(tmp_path: Path) -> None:
    _, calls, _ = deployed(tmp_path, given(), "ARGS=--var workers=3")
    assert calls == [call.replace("-t prod", "-t prod --var workers=3") for call in (STRICT, SHOWN, DEPLOY)]
