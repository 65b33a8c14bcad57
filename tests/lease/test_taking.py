"""One run has a lease at a time, and it is free again when that run gives it up or has certainly ended."""

import os
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from typing import Any, NoReturn

import pytest
from pyspark.errors import AnalysisException

from sessionization.errors import CheckpointError, ConfigurationError, StoppedError, StreamError
from sessionization.processes import pid_scope
from sessionization.spark.tables.lease import POLL_S, SETTLE_S, SKEW_MS, TERM_MS
from tests.lease.stand import ELSEWHERE, FakeClock, Hold, MemoryLease, T, found, give_to


def test_a_lease_is_taken_and_given_up_and_then_free_at_once(table: MemoryLease, hold: Hold, clock: FakeClock) -> None:
    owners = set()
    for _ in range(2):
        with hold() as lease:
            lease.check()
            holder = found(table)
            owners.add(holder.owner)
            assert (holder.host, holder.pid, holder.job) == (socket.gethostname(), os.getpid(), "sessionize")
            assert holder.until_ms == holder.since_ms + TERM_MS
        assert (found(table).owner, found(table).until_ms) == (None, clock.wall_ms)
        with pytest.raises(StreamError, match="was given up"):  # a query that outlives its job must not write
            lease.check()
    assert len(owners) == 2
    assert clock.waits == 2, "it looks again after each commit"


def test_a_second_run_is_refused_while_the_first_renews_and_the_error_names_it(hold: Hold) -> None:
    lines: list[str] = []
    refused = pytest.raises(
        CheckpointError, match=rf"is held by sessionize \(process {os.getpid()} on \S+\) since \S+ until \S+: stop that"
    )
    with hold() as lease:
        with refused, hold(lines):
            pytest.fail("two runs at once")
        lease.check()
    assert len(lines) == 1
    assert lines[0].startswith(f"waiting for sessionize (process {os.getpid()} on ")


def test_a_killed_run_is_waited_for_until_its_lease_has_certainly_ended(
    table: MemoryLease, hold: Hold, clock: FakeClock
) -> None:
    give_to(table, ELSEWHERE)
    lines: list[str] = []
    with hold(lines) as lease:
        assert found(table).host == socket.gethostname()
        waited_ms = clock.wall_ms - T
        assert TERM_MS + SKEW_MS < waited_ms <= TERM_MS + SKEW_MS + 1_000 * (POLL_S + SETTLE_S)
        lease.check()
    assert lines == [
        f"waiting for {ELSEWHERE}, which holds {table}; if it was killed, the lease is free in "
        f"{(TERM_MS + SKEW_MS) // 1_000} s"
    ]


def test_a_lease_that_ended_long_ago_is_taken_at_once(table: MemoryLease, hold: Hold, clock: FakeClock) -> None:
    give_to(table, ELSEWHERE)
    clock.advance(TERM_MS + SKEW_MS + 1)
    with hold():
        assert found(table).host == socket.gethostname()


def test_a_lease_whose_end_lies_too_far_ahead_is_refused(table: MemoryLease, hold: Hold) -> None:
    give_to(table, replace(ELSEWHERE, until_ms=T + 100 * TERM_MS))
    with pytest.raises(CheckpointError, match="is held by"), hold([]):
        pytest.fail("two runs at once")


def test_a_stop_ends_the_wait(table: MemoryLease, hold: Hold) -> None:
    give_to(table, ELSEWHERE)
    stop = threading.Event()
    stop.set()
    with pytest.raises(StoppedError, match="stopped while waiting for the lease"), hold([], stop):
        pytest.fail("stopped")
    assert found(table) == ELSEWHERE


def test_a_lease_that_cannot_be_taken_is_one_line_that_names_the_right(
    table: MemoryLease, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: MemoryLease) -> NoReturn:
        msg = "SCHEMA_NOT_FOUND"
        raise AnalysisException(msg)

    monkeypatch.setattr(MemoryLease, "create", refuse)
    text = r"the lease .* cannot be taken \(SCHEMA_NOT_FOUND\): .* the right to create the table job_lease"
    with pytest.raises(ConfigurationError, match=text), hold():
        pytest.fail("it was taken")


def a_dead_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


@pytest.mark.skipif(pid_scope() is None, reason="only Linux tells in which scope an id of a process holds")
@pytest.mark.parametrize(
    ("holder", "is_freed"),
    [
        ({}, True),
        ({"pid": os.getpid()}, False),
        ({"engine_pid": os.getpid()}, False),
        ({"engine_pid": None}, False),
        ({"host": "another host"}, False),
        ({"pid_scope": "another container"}, False),
    ],
    ids=["both dead", "process lives", "engine lives", "engine unknown", "another host", "another container"],
)
def test_only_a_lease_of_a_process_and_an_engine_that_certainly_ended_is_free_before_its_end(
    table: MemoryLease, hold: Hold, clock: FakeClock, holder: dict[str, Any], *, is_freed: bool
) -> None:
    dead = {"host": socket.gethostname(), "pid_scope": pid_scope(), "pid": a_dead_process()}
    give_to(table, replace(ELSEWHERE, **{**dead, "engine_pid": dead["pid"], **holder}))
    stop = threading.Event()
    if is_freed:
        with hold():
            assert clock.waits == 1
    else:
        stop.set()
        with pytest.raises(StoppedError), hold([], stop):
            pytest.fail("it may still run")


def test_a_run_whose_commit_another_one_has_replaced_does_not_have_the_lease(
    table: MemoryLease, hold: Hold, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on storage that does not refuse a second commit of the same number: it looks again after a while."""
    stop = threading.Event()
    waited: list[float] = []

    def wait(event: threading.Event, seconds: float) -> bool:
        waited.append(seconds)
        if len(waited) == 1:
            table.rows[:] = [replace(ELSEWHERE, until_ms=found(table).until_ms)]
        else:
            stop.set()
        return event.is_set()

    monkeypatch.setattr(clock, "wait", wait)
    with pytest.raises(StoppedError), hold([], stop):
        pytest.fail("two runs at once")
    assert waited[0] == 1
    assert found(table).host == "another host"
