"""A lease is renewed while its run lives, and a run that lost it stops before it writes."""

import signal
import subprocess
import sys
import threading
import time

import pytest

from sessionization.errors import ConfigurationError, StoppedError, StreamError
from sessionization.spark.tables.lease import Lease
from sessionization.spark.tables.lease_claim import Claim, Instant
from tests.lease.stand import DEADLINE_S, ELSEWHERE, TIMES, FakeClock, Hold, MemoryLease, T, eventually, found, give_to


def test_renewals_hold_the_lease_longer_than_its_term(table: MemoryLease, hold: Hold, clock: FakeClock) -> None:
    stop = threading.Event()
    with hold(stop=stop) as lease:
        while clock.wall_ms < T + 1.5 * TIMES.term_ms:
            clock.advance_once_it_rests(TIMES.renew_every_ms)
            eventually(lambda: found(table).until_ms == clock.wall_ms + TIMES.term_ms)
            lease.check()
        assert found(table).since_ms == T
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
            clock.advance_once_it_rests(TIMES.renew_every_ms)
            assert tried.wait(DEADLINE_S)
            eventually(lambda: clock.rests)
        clock.advance_once_it_rests(TIMES.retry_every_ms)
        eventually(lambda: found(table).until_ms == clock.wall_ms + TIMES.term_ms)
        lease.check()


@pytest.mark.parametrize("hangs", [False, True])
def test_a_run_that_cannot_renew_is_stopped_in_time_and_then_writes_nothing(
    hold: Hold, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, *, hangs: bool
) -> None:
    goes_on, stop, lines = threading.Event(), threading.Event(), list[str]()
    monkeypatch.setattr(MemoryLease, "renew", lambda *_: (hangs and goes_on.wait(DEADLINE_S)) or _fails())
    refused = pytest.raises(StreamError, match="so the job stops: start again with the same options; nothing is lost")
    with refused, hold(lines, stop) as lease:
        clock.advance_once_it_rests(TIMES.term_ms - TIMES.stop_margin_ms)
        time.sleep(0.1)
        assert not stop.is_set()
        clock.advance(1_000)
        assert stop.wait(DEADLINE_S)
        lease.check()  # a minute for a graceful stop
        clock.advance(59_000)
        with pytest.raises(StreamError, match="is over"):
            lease.check()
        assert not lease.is_held
        goes_on.set()
    assert len(lines) == 1
    assert "ends in 74 s (no renewal has ended" in lines[0] if hangs else "does not answer" in lines[0]


def test_a_run_whose_lease_was_taken_away_is_stopped_at_once(table: MemoryLease, hold: Hold, clock: FakeClock) -> None:
    lines, stop = list[str](), threading.Event()
    text = r"taken from this run .*process 7 on another host"
    lost = pytest.raises(StreamError, match=text)
    with lost, hold(lines, stop) as lease:
        give_to(table, ELSEWHERE)
        clock.advance_once_it_rests(TIMES.renew_every_ms)
        assert stop.wait(DEADLINE_S)
        with pytest.raises(StreamError, match=text):
            lease.check()
    assert len(lines) == 1
    assert "process 7 on another host" in lines[0]
    assert found(table) == ELSEWHERE


@pytest.mark.parametrize("of_the_body", [StoppedError, ConfigurationError])
def test_a_lost_lease_explains_an_end_that_it_has_caused(
    table: MemoryLease, hold: Hold, clock: FakeClock, of_the_body: type[Exception]
) -> None:
    stop, text = threading.Event(), "taken from this run"
    lost = pytest.raises(StreamError, match=text)
    with lost, hold([], stop):
        give_to(table, ELSEWHERE)
        clock.advance_once_it_rests(TIMES.renew_every_ms)
        assert stop.wait(DEADLINE_S)
        raise of_the_body


def test_a_job_that_only_checks_its_lease_ends_well_where_the_loss_came_after_its_last_write(
    table: MemoryLease, hold: Hold, clock: FakeClock
) -> None:
    stop, lines = threading.Event(), list[str]()
    with hold(lines, stop, stops_job=False) as lease:
        lease.check()
        give_to(table, ELSEWHERE)
        clock.advance_once_it_rests(TIMES.renew_every_ms)
        eventually(lambda: len(lines) > 0)
        with pytest.raises(StreamError, match="taken from this run"):
            lease.check()
    assert not stop.is_set()


def test_an_error_of_the_body_is_the_one_that_is_raised(table: MemoryLease, hold: Hold, clock: FakeClock) -> None:
    stop = threading.Event()
    raised = pytest.raises(ZeroDivisionError)
    with raised, hold([], stop):
        give_to(table, ELSEWHERE)
        clock.advance_once_it_rests(TIMES.renew_every_ms)
        assert stop.wait(DEADLINE_S)
        raise ZeroDivisionError


@pytest.mark.parametrize("jumping", ["wall_ms", "steady_ms"])
def test_a_run_that_slept_fails_the_check_before_anything_else(table: MemoryLease, jumping: str) -> None:
    """No thread runs here: after a SIGSTOP the one that writes may be the first."""
    clock = FakeClock()
    end = Instant(T + TIMES.term_ms, clock.steady_ms + TIMES.term_ms)
    lease = Lease(table, ELSEWHERE, Claim("stream", "sessionize", TIMES, clock.clock()), end)
    lease.check()
    setattr(clock, jumping, getattr(clock, jumping) + TIMES.term_ms - TIMES.skew_ms)
    with pytest.raises(StreamError, match="is over"):
        lease.check()


def test_the_clock_goes_on_while_the_process_is_stopped() -> None:
    program = (
        "from sessionization.spark.tables.lease_claim import LeaseClock as C; c = C(); b = c.steady_ms(); "
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
