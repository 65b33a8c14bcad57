"""`make demo`: one that ends by itself, and a second one that Ctrl-C ends, which continues its tables."""

import os
import signal
import subprocess
import threading
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest

from sessionization_laptop.demo import PLAYERS_QUERY, QUERIES
from tests.support.job import ROOT, command, environment

pytestmark = [pytest.mark.job, pytest.mark.long]

_DEMO_S = 300


def play_demo(folder: Path, interrupt_after: str | None = None) -> list[str]:
    """Run the demo without a terminal, and return what it printed; press Ctrl-C after a line with this text."""
    words = command("--folder=.demo", entry=(ROOT / "jobs" / "demo.py",))
    demo = subprocess.Popen(
        words,
        env=environment(COLUMNS="120"),
        cwd=folder,
        stdout=PIPE,
        stderr=STDOUT,
        text=True,
        start_new_session=True,
    )
    cut_off = threading.Timer(_DEMO_S, demo.kill)
    cut_off.start()
    lines: list[str] = []
    with demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            lines.append(line.removesuffix("\n"))
            if interrupt_after is not None and interrupt_after in line:
                interrupt_after = None
                os.killpg(demo.pid, signal.SIGINT)
    cut_off.cancel()
    assert demo.returncode == 0, lines
    assert interrupt_after is None, lines
    assert not any("Traceback" in line or "Exception" in line for line in lines), lines
    return lines


def test_a_demo_prints_lines_and_answers_and_a_second_one_continues_its_tables(tmp_path: Path) -> None:
    first, second = play_demo(tmp_path), play_demo(tmp_path, interrupt_after="heartbeats late")
    for lines in (first, second):
        assert lines[0].startswith("Spark is starting")
        assert any(" events in, " in line for line in lines)
        text = "\n".join(lines)
        for question, _ in QUERIES:
            assert question in text
        assert PLAYERS_QUERY in text
        assert "reported" in text[text.index(QUERIES[0][0]) :]
    said = "this demo continues the tables of an earlier one; to begin anew, delete .demo"
    assert said not in first
    assert said in second
