"""A lease is renewed while its run lives, and a run that lost it stops before it writes."""

import signal
import subprocess
import sys
import threading
import time

import pytest

from sessionization.errors import ConfigurationError, StateError, StoppedError, StreamError
from sessionization.spark.tables.lease import RENEW_EVERY_S, RETRY_EVERY_S, SKEW_MS, TERM_MS, Instant, Lease
from tests.lease.stand import DEADLINE_S, ELSEWHERE, FakeClock, Hold, MemoryLease, T, eventually, found, give_to

RENEW_EVERY_MS = 1_000 * RENEW_EVERY_S


def test_renewals_hold_the_lease_longer_than_its_term(table: MemoryLease, hold: Hold, clock: FakeClock) -> None:
    stop = threading.Event()
    with hold(stop=stop) as lease:
        since_ms = found(table).since_ms
        while clock.wall_ms < T + 1.5 * TERM_MS:
            clock.advance_once_it_rests(RENEW_EVERY_MS)
            eventually(lambda: found(table).until_ms == clock.wall_ms + TERM_MS)
            lease.check()
        assert found(table).since_ms == since_ms
    assert not stop.is_set()


def _fails(*_: object) -> bool:
    msg = "the storage does not answer"
    raise OSError(msg)


def test_a_renewal_that_failed_is_tried_again_soon(
    table: MemoryLease, hold: Hold, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = threading.Event()
    with hold() as lease:
        with monkeypatch.context() as failing:
            failing.setattr(MemoryLease, "renew", lambda *_: tried.set() or _fails())
            clock.advance_once_it_rests(RENEW_EVERY_MS)
            assert tried.wait(DEADLINE_S)
            eventually(lambda: clock.rests)
        clock.advance_once_it_rests(1_000 * RETRY_EVERY_S)
        eventually(lambda: found(table).until_ms == clock.wall_ms + TERM_MS)
        lease.check()


@pytest.mark.parametrize("hangs", [False, True])
def test_a_run_that_cannot_renew_writes_nothing_once_its_lease_is_over(
    hold: Hold, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, *, hangs: bool
) -> None:
    goes_on, stop = threading.Event(), threading.Event()
    monkeypatch.setattr(MemoryLease, "renew", lambda *_: (hangs and goes_on.wait(DEADLINE_S)) or _fails())
    reason = "no renewal has ended in time" if hangs else "the storage does not answer"
    refused = pytest.raises(StreamError, match=f"is over .*{reason}")
    with refused, hold([], stop) as lease:
        eventually(lambda: clock.rests)
        clock.advance(TERM_MS - SKEW_MS - 2_000)  # a second was spent when the lease was taken
        lease.check()
        if not hangs:
            eventually(lambda: clock.rests)
        clock.advance(RENEW_EVERY_MS)
        if not hangs:
            assert stop.wait(DEADLINE_S)
        with pytest.raises(StreamError, match="is over"):
            lease.check()
        goes_on.set()


def test_a_run_whose_lease_was_taken_away_is_stopped_at_once(table: MemoryLease, hold: Hold, clock: FakeClock) -> None:
    stop, text = threading.Event(), r"taken from this run .*process 7 on another host"
    lost = pytest.raises(StreamError, match=text)
    with lost, hold([], stop) as lease:
        give_to(table, ELSEWHERE)
        clock.advance_once_it_rests(RENEW_EVERY_MS)
        assert stop.wait(DEADLINE_S)
        with pytest.raises(StreamError, match=text):
            lease.check()
    assert found(table) == ELSEWHERE


@pytest.mark.parametrize(
    ("of_the_body", "raised"),
    [
        (StoppedError, StreamError),
        (ConfigurationError, StreamError),
        (StateError, StateError),
        (ZeroDivisionError, ZeroDivisionError),
    ],
)
def test_a_lost_lease_explains_an_end_that_it_has_caused(
    table: MemoryLease, hold: Hold, clock: FakeClock, of_the_body: type[Exception], raised: type[Exception]
) -> None:
    stop, ends = threading.Event(), pytest.raises(raised)
    with ends, hold([], stop):
        give_to(table, ELSEWHERE)
        clock.advance_once_it_rests(RENEW_EVERY_MS)
        assert stop.wait(DEADLINE_S)
        raise of_the_body


@pytest.mark.parametrize("jumping", ["wall_ms", "steady_ms"])
def test_a_run_that_slept_fails_the_check_before_anything_else(table: MemoryLease, jumping: str) -> None:
    """No thread runs here: after a SIGSTOP the one that writes may be the first."""
    clock = FakeClock()
    lease = Lease(table, ELSEWHERE, clock.clock(), Instant(T + TERM_MS, clock.steady_ms + TERM_MS))
    lease.check()
    setattr(clock, jumping, getattr(clock, jumping) + TERM_MS - SKEW_MS)
    with pytest.raises(StreamError, match="is over"):
        lease.check()


def test_the_clock_goes_on_while_the_process_is_stopped() -> None:
    program = (
        "from sessionization.spark.tables.lease import LeaseClock as C; c = C(); b = c.steady_ms(); "
        "print(flush=True); input(); print(c.steady_ms() - b)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        process.send_signal(signal.SIGCONT)
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert int(process.stdout.readline()) >= 300
