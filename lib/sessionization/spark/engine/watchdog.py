"""Report in one line that the engine has died or hangs. An engine that hangs would outlast a stop."""

import contextlib
import subprocess
import threading
from collections.abc import Iterator

from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from sessionization import private_py4j, private_spark
from sessionization.errors import StreamError
from sessionization.private_spark import engine_process, jvm_of
from sessionization.say import Say

_EXIT_WAIT_S = 1
_ASK_EVERY_S = 1
_SILENT_S = 60
"""The time without an answer after which an engine counts as hung.

A stop may take about as long. It must end before a supervisor kills the process of the job without the engine.
"""


@contextlib.contextmanager
def explain_engine_death(log_place: str) -> Iterator[None]:
    """Report in one line that the engine has died, whichever call in the body fails because of it.

    `log_place` is the text of `describe_log`. Raises `StreamError`.
    """
    private_spark.silence_lost_connections()
    private_py4j.silence_lost_connections()
    try:
        yield
    except Exception as error:
        if not isinstance(error, (Py4JNetworkError, ConnectionRefusedError, ConnectionResetError)) and not _has_ended():
            raise
        msg = (
            f"the engine has died (was it killed, or out of memory? see the end of {log_place}); "
            "if it dies again, see docs/runbook.md, 'A file ends the engine'; "
            "nothing is lost: start again with the same options"
        )
        raise StreamError(msg) from error


def _has_ended() -> bool:
    """Whether the local engine's process has ended. Calls to it then fail in many ways, some of them misleading."""
    process = engine_process()
    if process is None:
        return False
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_EXIT_WAIT_S)
    return process.poll() is not None


@contextlib.contextmanager
def watch_for_hang(
    spark: SparkSession, log_place: str, stop: threading.Event, say: Say, *, is_ours: bool
) -> Iterator[None]:
    """Report that the engine has not answered for a minute; once `stop` is set, kill it if it is local and `is_ours`.

    Any call to a hung JVM blocks, also the calls for the progress line and for a stop, so a separate thread polls it.
    After the kill all blocked calls fail, and `explain_engine_death` reports the death.
    """
    jvm = jvm_of(spark)
    if jvm is None:
        yield
        return
    finished = threading.Event()
    answers = 0

    def poll_engine() -> None:
        nonlocal answers
        while not finished.wait(_ASK_EVERY_S):
            with contextlib.suppress(Exception):  # the call that needs the engine raises its own error
                jvm.System.currentTimeMillis()  # the cheapest call
                answers += 1

    def check_answers() -> None:
        process = engine_process() if is_ours else None
        # Counts this thread's own waits, not the wall clock: a job that is frozen receives no answers either.
        known_answers, silent_s = 0, 0.0
        is_reported = False
        while not finished.wait(_ASK_EVERY_S) and (process is None or process.poll() is None):
            known_answers, silent_s = answers, 0.0 if answers > known_answers else silent_s + _ASK_EVERY_S
            hangs = silent_s >= _SILENT_S
            if hangs and not is_reported:
                say(
                    f"the engine has not answered for {_SILENT_S} s (see {log_place}): "
                    "stop the job if that goes on, and start it again"
                )
            is_reported = hangs
            if hangs and stop.is_set() and process is not None:
                say("the engine does not hear the stop, and is killed")
                process.kill()
                return

    for task in (poll_engine, check_answers):
        threading.Thread(target=task, daemon=True).start()
    try:
        yield
    finally:
        finished.set()
