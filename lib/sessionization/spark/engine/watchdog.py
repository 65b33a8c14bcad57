"""Whether the engine lives: tell in one line that it has died, or that it hangs, which would outlast a stop."""

import contextlib
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from sessionization.databricks import on_databricks
from sessionization.errors import StreamError
from sessionization.say import Say

_DEATH_S = 1
_ASK_EVERY_S = 1
_SILENT_S = 60
"""From when on an engine hangs. A stop may take about as long, and must end before its supervisor kills the job alone."""


@contextlib.contextmanager
def explain_engine_death(log: Path) -> Iterator[None]:
    """Tell in one line that the engine has died, whatever was asked of it then.

    Raises `StreamError`.
    """
    try:
        yield
    except Exception as error:
        if not isinstance(error, (Py4JNetworkError, ConnectionRefusedError, ConnectionResetError)) and not _has_ended():
            raise
        msg = (
            f"the engine has died (was it killed, or out of memory? see the end of {log} and {log.with_suffix('.out')});"
            " nothing is lost: start again with the same options"
        )
        raise StreamError(msg) from error


def _has_ended() -> bool:
    """Whether the local engine's process has ended: what is asked of it then fails in many ways, some misleading."""
    process = _process()
    if process is None:
        return False
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_DEATH_S)
    return process.poll() is not None


@contextlib.contextmanager
def watch_for_hang(spark: SparkSession, log: Path, stop: threading.Event, say: Say, *, is_ours: bool) -> Iterator[None]:
    """Tell when the engine has not answered for a minute; where `stop` is set, kill it, if it is local and `is_ours`.

    Whoever asks it then waits for as long as it hangs, the progress line and a stop as well: so it is asked here, by a
    thread of its own. Killed, it has died for everybody else (`explain_engine_death`).
    """
    jvm: Any = getattr(spark, "_jvm", None)  # Spark Connect shows none
    if jvm is None:
        yield
        return
    over = threading.Event()
    answers = 0

    def ask() -> None:
        nonlocal answers
        while not over.wait(_ASK_EVERY_S):
            with contextlib.suppress(Exception):  # who needs the answer finds out why there is none
                jvm.System.currentTimeMillis()  # the cheapest thing to ask
                answers += 1

    def look() -> None:
        process = _process() if is_ours else None
        known, silent_s = 0, 0.0  # counted by what this thread has lived through: a job that is frozen hears nothing
        is_told = False
        while not over.wait(_ASK_EVERY_S) and (process is None or process.poll() is None):
            known, silent_s = answers, 0.0 if answers > known else silent_s + _ASK_EVERY_S
            hangs = silent_s >= _SILENT_S
            if hangs and not is_told:
                where = "the cluster's log" if on_databricks() else log
                say(
                    f"the engine has not answered for {_SILENT_S} s (see {where}): stop the job if that goes on, and start it again"
                )
            is_told = hangs
            if hangs and stop.is_set() and process is not None:
                say("the engine does not hear the stop, and is killed")
                process.kill()
                return

    for watching in (ask, look):
        threading.Thread(target=watching, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _process() -> "subprocess.Popen[bytes] | None":
    """The local engine's process; None on a cluster."""
    return getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - PySpark shows its child nowhere else
