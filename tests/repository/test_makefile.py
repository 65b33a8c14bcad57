"""What `make sql` gives to the job: a query as it was written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (['Q=SELECT "a$b"\n  FROM sessions'], ["--sql", 'SELECT "a$b"\n  FROM sessions']),
        (["Q=SELECT 'a  b'"], ["--sql", "SELECT 'a  b'"]),
        ([], []),
    ],
    ids=["lines, quotes and a dollar", "two spaces", "no query"],
)
def test_make_sql_gives_the_query_as_it_was_written(tmp_path: Path, given: list[str], options: list[str]) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:])\n", encoding="utf-8")
    python.chmod(0o755)
    command = ["make", "--no-print-directory", "sql", f"BIN={tmp_path}", "-o.venv/.ready", *given]
    clean = {"PATH": os.environ["PATH"]}  # not of the make that runs the tests
    printed = subprocess.run(command, cwd=ROOT, env=clean, check=True, capture_output=True, text=True).stdout
    assert printed == f"{['jobs/query.py', '--warehouse', '.demo/warehouse', *options]}\n"
