"""`make demo`: one that ends by itself, and one that continues its tables; `make demo-serving` in a terminal."""

import os
import pty
import re
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
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


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
        assert any(line.startswith("Spark is starting") for line in lines[:2])
        assert any(" events in, " in line for line in lines)
        text = "\n".join(lines)
        for question, _ in QUERIES:
            assert question in text
        assert PLAYERS_QUERY in text
        assert "reported" in text[text.index(QUERIES[0][0]) :]
    said = "this demo continues the tables of an earlier one; to begin anew, delete .demo"
    assert said not in first
    assert said in second


def test_after_a_demo_of_serving_postgres_answers_the_command_that_it_shows_until_ctrl_c(tmp_path: Path) -> None:
    terminal, of_demo = pty.openpty()
    words = command("--folder=.demo", "--serving", entry=(ROOT / "jobs" / "demo.py",))
    demo = subprocess.Popen(
        words, env=environment(), cwd=tmp_path, stdin=of_demo, stdout=of_demo, stderr=of_demo, start_new_session=True
    )
    os.close(of_demo)
    cut_off = threading.Timer(_DEMO_S, demo.kill)
    cut_off.start()
    with demo, os.fdopen(terminal, encoding="utf-8", errors="replace") as shown:
        lines = (_CONTROL.sub("", line).strip() for line in shown)
        shown_command = next(line for line in lines if line.startswith("PGPASSWORD="))
        answer = subprocess.run(["bash", "-c", shown_command], check=True, stdout=PIPE, text=True).stdout
        os.killpg(demo.pid, signal.SIGINT)
        demo.wait()
    cut_off.cancel()
    assert demo.returncode == 0
    assert "played_today_ms" in answer
    assert "(5 rows)" in answer
