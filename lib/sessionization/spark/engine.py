"""Whether the engine lives: tell in one line that it has died, or that it hangs, which would outlast a stop."""

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from sessionization.errors import StreamError
from sessionization.say import Say

_DEATH_S = 1
_ASK_EVERY_S = 1
_SILENT_S = 60
"""From when on an engine hangs. A stop may take about as long, and must end before its supervisor kills the job alone."""


@contextlib.contextmanager
def engine_alive(log: Path) -> Iterator[None]:
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
def hang_told(spark: SparkSession, log: Path, stop: threading.Event, say: Say) -> Iterator[None]:
    """Tell when the engine has not answered for a minute; where `stop` is set, kill it, if it is a local one.

    Whoever asks it then waits for as long as it hangs, the progress line and a stop as well: so it is asked here, by a
    thread of its own. Killed, it has died for everybody else (`engine_alive`).
    """
    over = threading.Event()
    answered_s = time.monotonic()

    def ask() -> None:
        nonlocal answered_s
        with contextlib.suppress(Exception):  # who needs the answer finds out why there is none
            jvm: Any = spark._jvm  # noqa: SLF001 - the cheapest thing to ask
            while not over.wait(_ASK_EVERY_S):
                jvm.System.currentTimeMillis()
                answered_s = time.monotonic()

    def look() -> None:
        is_told = False
        while not over.wait(_ASK_EVERY_S) and asking.is_alive():
            hangs = time.monotonic() - answered_s > _SILENT_S
            if hangs and not is_told:
                say(
                    f"the engine has not answered for {_SILENT_S} s (see {log}): stop the job if that goes on, and start it again"
                )
            is_told = hangs
            process = _process()
            if hangs and stop.is_set() and process is not None:
                say("the engine does not hear the stop, and is killed")
                process.kill()
                return

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    threading.Thread(target=look, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _process() -> "subprocess.Popen[bytes] | None":
    """The local engine's process; None on a cluster."""
    return getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - PySpark shows its child nowhere else
