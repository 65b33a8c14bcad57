"""A signal or the end of its time stops a job, in threads that can receive signals."""

import os
import signal
import threading

from sessionization.stop_signals import preserve_interrupt_handler, stop_after, stop_on_signals


def test_sigterm_sets_the_stop_and_afterwards_its_handler_is_restored() -> None:
    original = signal.getsignal(signal.SIGTERM)
    with stop_on_signals() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(5)
    assert signal.getsignal(signal.SIGTERM) is original


def test_a_thread_that_cannot_receive_signals_runs_nevertheless() -> None:
    stops_seen: list[bool] = []

    def run() -> None:
        with stop_on_signals() as stop:
            stops_seen.append(stop.is_set())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert stops_seen == [False]


def test_spark_does_not_replace_the_jobs_handler_of_ctrl_c() -> None:
    with stop_on_signals() as stop:
        with preserve_interrupt_handler():
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # as SparkContext does, with one that raises
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.wait(5)


def test_sparks_handler_of_ctrl_c_stays_where_the_job_has_none() -> None:
    """In a notebook Spark's handler cancels the running Spark jobs."""
    original = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with preserve_interrupt_handler():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, original)


def test_the_stop_is_set_when_the_time_is_over() -> None:
    stop = threading.Event()
    with stop_after(stop, 10):
        assert stop.wait(5)


def test_the_stop_is_set_when_the_body_ends() -> None:
    stop = threading.Event()
    with stop_after(stop, None):
        assert not stop.is_set()
    assert stop.is_set()
