"""`make deploy` checks the values of a target, and deploys nothing if one is wrong."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.bundle.target import ROOT, read_target

# A stand-in for the CLI: it records its arguments, and prints the resolved target.
CLI = """#!/bin/sh
echo "$*" >> "$NOTES/calls"
case "$*" in
  "$REFUSED"*) echo "Error: no" >&2; exit 1 ;;
  *"-o json") cat "$NOTES/given.json" ;;
esac
"""
STRICT, SHOWN, DEPLOY = "bundle validate --strict -t prod", "bundle validate -t prod -o json", "bundle deploy -t prod"


def run_deploy(folder: Path, shown: dict[str, Any], *words: str, refused: str = "none") -> tuple[int, list[str], str]:
    """The exit code of `make deploy T=prod`, the CLI's arguments per call, and the output."""
    cli = folder / "databricks"
    cli.write_text(CLI)
    cli.chmod(0o755)
    (folder / "given.json").write_text(json.dumps(shown))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # from `make test`
    process = subprocess.run(
        # Use this environment, by a path that has no space of the checkout's in it, and set up no other.
        [
            "make",
            "--old-file=.venv/.ready",
            f"BIN={os.path.relpath(Path(sys.executable).parent, ROOT)}",
            "deploy",
            "T=prod",
            *words,
        ],
        cwd=ROOT,
        env=inherited | {"PATH": f"{folder}:{os.environ['PATH']}", "NOTES": str(folder), "REFUSED": refused},
        capture_output=True,
        text=True,
        check=False,
    )
    return process.returncode, (folder / "calls").read_text().splitlines(), process.stdout + process.stderr


def test_a_target_without_mistakes_is_deployed_and_every_call_gets_the_extra_arguments(tmp_path: Path) -> None:
    expected = [call.replace("-t prod", "-t prod --var workers=3") for call in (STRICT, SHOWN, DEPLOY)]
    assert run_deploy(tmp_path, read_target("prod"), "ARGS=--var workers=3") == (0, expected, "")


def test_a_mistake_that_the_cli_accepts_stops_the_deploy(tmp_path: Path) -> None:
    code, calls, output = run_deploy(tmp_path, read_target("prod", keep_tables=False))
    assert code != 0
    assert calls == [STRICT, SHOWN]
    assert "keep_tables must be true" in output


def test_a_refusal_by_the_cli_stops_the_deploy(tmp_path: Path) -> None:
    code, calls, output = run_deploy(tmp_path, read_target("prod"), refused=SHOWN)
    assert code != 0
    assert calls == [STRICT, SHOWN], "nothing after it, although its output goes into another command"
    assert "Error: no" in output
    assert "Traceback" not in output
