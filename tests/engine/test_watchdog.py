"""Any call to a hung engine blocks, so a separate thread calls it and reports the hang."""

import contextlib
import itertools
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from sessionization.spark.engine import watchdog
from tests.support.waiting import wait_for

LOG = "engine.log"
DEADLINE_S = 10


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator["subprocess.Popen[bytes]"]:
    """Yields a process in place of the engine's, and makes the watchdog's limits short."""
    monkeypatch.setattr(watchdog, "_ASK_EVERY_S", 0.01)
    monkeypatch.setattr(watchdog, "_SILENT_S", 0.5)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=child))
        yield child
        child.kill()


@contextlib.contextmanager
def watch(answer: Callable[[], object], stop: threading.Event, *, is_ours: bool = True) -> Iterator[list[str]]:
    lines: list[str] = []
    spark = SimpleNamespace(_jvm=SimpleNamespace(System=SimpleNamespace(currentTimeMillis=answer)))
    with watchdog.watch_for_hang(spark, LOG, stop, lines.append, is_ours=is_ours):
        yield lines


def wait_until(condition: Callable[[], object]) -> None:
    wait_for(condition, within_s=DEADLINE_S)


def test_a_hung_engine_is_reported_once_and_not_killed(process: "subprocess.Popen[bytes]") -> None:
    answers = threading.Event()
    with watch(answers.wait, threading.Event()) as lines:
        wait_until(lambda: lines)
        time.sleep(0.6)
        answers.set()
    assert len(lines) == 1
    assert lines[0].startswith("the engine has not answered for 0.5 s (see engine.log): stop the job")
    assert process.poll() is None


def test_a_hung_engine_is_killed_at_a_stop(process: "subprocess.Popen[bytes]") -> None:
    """It would outlive the job and hold the lock of its checkpoint."""
    never, stop = threading.Event(), threading.Event()
    with watch(never.wait, stop) as lines:
        wait_until(lambda: lines)
        assert process.poll() is None
        stop.set()
        wait_until(lambda: process.poll() is not None)
        assert lines[1:] == ["the engine does not hear the stop, and is killed"]
        never.set()


def test_an_engine_that_answers_is_not_killed_however_long_its_stop_takes(process: "subprocess.Popen[bytes]") -> None:
    stop = threading.Event()
    stop.set()
    with watch(lambda: 0, stop) as lines:
        time.sleep(1)
    assert lines == []
    assert process.poll() is None


@pytest.mark.parametrize("is_ours", [False, True])
def test_the_engine_of_a_cluster_or_notebook_is_not_killed(
    process: "subprocess.Popen[bytes]",
    monkeypatch: pytest.MonkeyPatch,
    is_ours: bool,  # noqa: FBT001
) -> None:
    if is_ours:
        monkeypatch.setattr(SparkContext, "_gateway", None)
    never, stop = threading.Event(), threading.Event()
    stop.set()
    with watch(never.wait, stop, is_ours=is_ours) as lines:
        wait_until(lambda: lines)
        time.sleep(0.1)
        never.set()
    assert len(lines) == 1
    assert process.poll() is None


def test_an_engine_that_refused_one_call_is_called_again(process: "subprocess.Popen[bytes]") -> None:
    """An engine short of memory drops a connection and goes on."""
    calls = itertools.count()
    stop = threading.Event()
    stop.set()

    def answer() -> None:
        if next(calls) == 0:
            raise ConnectionResetError

    with watch(answer, stop) as lines:
        time.sleep(1.5)
    assert lines == []
    assert process.poll() is None


def test_an_engine_that_has_died_is_not_reported_as_hung(process: "subprocess.Popen[bytes]") -> None:
    def die() -> None:
        raise ConnectionRefusedError

    process.kill()
    process.wait()
    with watch(die, threading.Event()) as lines:
        time.sleep(1)
    assert lines == []


FROZEN_JOB = """
import sys, threading, time
from types import SimpleNamespace
from sessionization.spark.engine import watchdog
watchdog._ASK_EVERY_S, watchdog._SILENT_S = 0.2, 1
stop = threading.Event()
stop.set()
lines = []
spark = SimpleNamespace(_jvm=SimpleNamespace(System=SimpleNamespace(currentTimeMillis=lambda: time.sleep(0.1))))
with watchdog.watch_for_hang(spark, "engine.log", stop, lines.append, is_ours=True):
    print("begun", flush=True)
    sys.stdin.readline()
    time.sleep(0.6)
print(lines)
"""


def test_a_job_that_was_frozen_does_not_report_a_hang() -> None:
    """Its engine was frozen with it and is healthy, whatever the clock shows."""
    with subprocess.Popen(
        [sys.executable, "-c", FROZEN_JOB], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "begun\n"
        job.send_signal(signal.SIGSTOP)
        time.sleep(2)
        job.send_signal(signal.SIGCONT)
        output, _ = job.communicate("go on\n", timeout=DEADLINE_S)
    assert output == "[]\n"
