"""Who asks the job to stop is heard, where signals can be heard at all."""

import os
import signal
import threading

from sessionization.stop_signals import preserve_interrupt_handler, stop_after, stop_on_signals


def test_sigterm_asks_to_stop_and_afterwards_does_what_it_did() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signals() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(5)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_thread_that_cannot_hear_signals_runs_all_the_same() -> None:
    seen: list[bool] = []

    def run() -> None:
        with stop_on_signals() as stop:
            seen.append(stop.is_set())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [False]


def test_spark_does_not_take_ctrl_c_away_from_who_hears_it() -> None:
    with stop_on_signals() as stop:
        with preserve_interrupt_handler():
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # as SparkContext does, with one that raises
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.wait(5)


def test_where_nobody_hears_it_sparks_own_handler_stays() -> None:
    """In a notebook it cancels what runs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with preserve_interrupt_handler():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_end_of_the_time_is_a_stop() -> None:
    stop = threading.Event()
    with stop_after(stop, 10):
        assert stop.wait(5)


def test_whoever_is_done_has_stopped() -> None:
    stop = threading.Event()
    with stop_after(stop, None):
        assert not stop.is_set()
    assert stop.is_set()
