"""Who asks the job to stop is heard, where signals can be heard at all."""

import os
import signal
import threading

from sessionization.signals import stop_on_signals


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
