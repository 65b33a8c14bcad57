"""Stop on a signal or after a time, between two pieces of work rather than within one."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM and Ctrl-C set; restore the previous handlers at the end.

    Only the main thread can handle signals. In another thread nothing sets the event.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    previous_handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in previous_handlers:
        signal.signal(number, lambda *_: stop.set())
    try:
        yield stop
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


@contextmanager
def stop_after(stop: threading.Event, run_for_ms: int | None) -> Iterator[None]:
    """Set `stop` after `run_for_ms`, if it is given, and always when the body ends."""
    timer = threading.Timer((run_for_ms or 0) / 1000, stop.set)
    timer.daemon = True
    if run_for_ms is not None:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        stop.set()


@contextmanager
def preserve_interrupt_handler() -> Iterator[None]:
    """Restore the handler of Ctrl-C after a body that replaces it, as the start of Spark does."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and callable(handler) and handler is not signal.default_int_handler:
            signal.signal(signal.SIGINT, handler)
