"""An engine that hangs: nothing that asks it comes back, and so somebody else must tell."""

import contextlib
import itertools
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from sessionization.spark.engine import watchdog

LOG = Path("engine.log")
DEADLINE_S = 10


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator["subprocess.Popen[bytes]"]:
    """What stands for the engine's process; how long it may be silent is short."""
    monkeypatch.setattr(watchdog, "_ASK_EVERY_S", 0.01)
    monkeypatch.setattr(watchdog, "_SILENT_S", 0.5)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=child))
        yield child
        child.kill()


@contextlib.contextmanager
def asked(answer: Callable[[], object], stop: threading.Event, *, is_ours: bool = True) -> Iterator[list[str]]:
    said: list[str] = []
    spark = SimpleNamespace(_jvm=SimpleNamespace(System=SimpleNamespace(currentTimeMillis=answer)))
    with watchdog.watch_for_hang(spark, LOG, stop, said.append, is_ours=is_ours):
        yield said


def until(holds: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_an_engine_that_hangs_is_told_once_and_left_alone(process: "subprocess.Popen[bytes]") -> None:
    answers = threading.Event()
    with asked(answers.wait, threading.Event()) as said:
        until(lambda: said)
        time.sleep(0.6)
        answers.set()
    assert len(said) == 1
    assert said[0].startswith("the engine has not answered for 0.5 s (see engine.log): stop the job")
    assert process.poll() is None


def test_one_that_hears_no_stop_is_killed(process: "subprocess.Popen[bytes]") -> None:
    """It would outlast the job, and hold its checkpoint."""
    never, stop = threading.Event(), threading.Event()
    with asked(never.wait, stop) as said:
        until(lambda: said)
        assert process.poll() is None
        stop.set()
        until(lambda: process.poll() is not None)
        assert said[1:] == ["the engine does not hear the stop, and is killed"]
        never.set()


def test_one_that_answers_is_not_killed_however_long_its_stop_takes(process: "subprocess.Popen[bytes]") -> None:
    stop = threading.Event()
    stop.set()
    with asked(lambda: 0, stop) as said:
        time.sleep(1)
    assert said == []
    assert process.poll() is None


@pytest.mark.parametrize("is_ours", [False, True])
def test_that_of_a_cluster_or_a_notebook_is_not_ours_to_kill(
    process: "subprocess.Popen[bytes]",
    monkeypatch: pytest.MonkeyPatch,
    is_ours: bool,  # noqa: FBT001
) -> None:
    if is_ours:
        monkeypatch.setattr(SparkContext, "_gateway", None)
    never, stop = threading.Event(), threading.Event()
    stop.set()
    with asked(never.wait, stop, is_ours=is_ours) as said:
        until(lambda: said)
        time.sleep(0.1)
        never.set()
    assert len(said) == 1
    assert process.poll() is None


def test_one_that_refused_an_answer_once_is_asked_again(process: "subprocess.Popen[bytes]") -> None:
    """Short of memory it drops one connection, and goes on."""
    asks = itertools.count()
    stop = threading.Event()
    stop.set()

    def answer() -> None:
        if next(asks) == 0:
            raise ConnectionResetError

    with asked(answer, stop) as said:
        time.sleep(1.5)
    assert said == []
    assert process.poll() is None


def test_one_that_has_died_says_so_elsewhere(process: "subprocess.Popen[bytes]") -> None:
    def die() -> None:
        raise ConnectionRefusedError

    process.kill()
    process.wait()
    with asked(die, threading.Event()) as said:
        time.sleep(1)
    assert said == []


FROZEN = """
import sys, threading, time
from pathlib import Path
from types import SimpleNamespace
from sessionization.spark.engine import watchdog
watchdog._ASK_EVERY_S, watchdog._SILENT_S = 0.2, 1
stop = threading.Event()
stop.set()
said = []
spark = SimpleNamespace(_jvm=SimpleNamespace(System=SimpleNamespace(currentTimeMillis=lambda: time.sleep(0.1))))
with watchdog.watch_for_hang(spark, Path("engine.log"), stop, said.append, is_ours=True):
    print("begun", flush=True)
    sys.stdin.readline()
    time.sleep(0.6)
print(said)
"""


def test_a_job_that_was_frozen_has_heard_no_silence() -> None:
    """Its engine was frozen with it, and is healthy, whatever the clock says."""
    with subprocess.Popen(
        [sys.executable, "-c", FROZEN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "begun\n"
        job.send_signal(signal.SIGSTOP)
        time.sleep(2)
        job.send_signal(signal.SIGCONT)
        told, _ = job.communicate("go on\n", timeout=DEADLINE_S)
    assert told == "[]\n"
