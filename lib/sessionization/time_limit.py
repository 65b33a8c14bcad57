"""Calls with a time limit."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")


class CheckTimeoutError(Exception):
    """Raised for a function that has not ended within its time limit. It goes on in a thread that nothing waits for."""


def call_within(seconds: float, function: Callable[[], T]) -> T:
    """Call a function in a thread of its own, because a call into a dead mount or a dead engine never returns.

    Returns its result. Raises what it raises, and `CheckTimeoutError` where it has not ended within `seconds`.
    """
    future: Future[T] = Future()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            future.set_exception(error)

    # Not an executor's thread, for which Python waits at its end.
    threading.Thread(target=call, name="check", daemon=True).start()
    if wait([future], seconds).not_done:
        raise CheckTimeoutError
    return future.result()
