"""The load generator as a process: its folders, its signals and its exit codes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sessionization.errors import ConfigurationError
from tests.simulate.simulated import contents, play
from tests.support.job import ROOT, SIMULATE


def command(*options: str) -> list[str]:
    return [sys.executable, str(SIMULATE), *options]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "lib")}


@pytest.mark.parametrize("below", ["", "deeper", "pc_sessions"])
def test_a_file_in_place_of_a_folder_is_one_line(tmp_path: Path, below: str) -> None:
    output = tmp_path / "output"
    if below == "pc_sessions":
        output.mkdir()
        (output / below).touch()
    else:
        output.touch()
        output /= below
    with pytest.raises(ConfigurationError, match=r"cannot write into .*output.*: choose another --output") as refusal:
        play(output)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_with_code_0_after_the_current_file(tmp_path: Path, number: signal.Signals) -> None:
    options = ("--output", str(tmp_path), "--live=200", "--session-length=1s", "--duration=1h", "--file-interval=50ms")
    with subprocess.Popen(command(*options), env=environment(), stderr=subprocess.PIPE, text=True) as process:
        waited_s = 0.0
        while not contents(tmp_path) and waited_s < 20:
            time.sleep(0.05)
            waited_s += 0.05
        process.send_signal(number)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert errors.startswith("simulate: done: ")
    assert errors.count("\n") == 1
    files = contents(tmp_path)
    assert files
    assert all(path.endswith(".json") for path in files)
    assert all(content.endswith(b"\n") for content in files.values())
