"""Stop when asked to, or when the time is over, between two pieces of work rather than within one."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and Ctrl-C set; afterwards they do again what they did before.

    Outside the main thread, which alone can hear signals, it is an event that nothing sets.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, lambda *_: stop.set())
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stop_after(stop: threading.Event, run_for_ms: int | None) -> Iterator[None]:
    """Set `stop` so long after, where there is a time, and in any case when the body ends."""
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
    """Whoever hears Ctrl-C goes on hearing it, though the body puts its own handler in that place, as Spark's start does."""
    heard = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and callable(heard) and heard is not signal.default_int_handler:
            signal.signal(signal.SIGINT, heard)
