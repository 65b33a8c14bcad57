"""One run has a lease at a time, and it is free again when that run gives it up or has certainly ended."""

import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from sessionization.errors import CheckpointError, ConfigurationError, StoppedError, StreamError
from sessionization.processes import pid_scope
from sessionization.spark.tables.lease_table import Holder, StoredLease
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import JOB_LEASE
from tests.lease.stand import DEADLINE_S, ELSEWHERE, ROUNDS, TIMES, FakeClock, Hold, T, found, give_to

pytestmark = pytest.mark.spark


def test_a_lease_is_taken_and_given_up_and_then_free_at_once(table: StoredLease, hold: Hold, clock: FakeClock) -> None:
    owners = set()
    for _ in range(2):
        with hold() as lease:
            lease.check()
            holder = found(table)
            owners.add(holder.owner)
            assert lease.is_held
            assert (holder.host, holder.pid, holder.job) == (socket.gethostname(), os.getpid(), "sessionize")
            assert (holder.since_ms, holder.until_ms) == (T, T + TIMES.term_ms)
        assert (found(table).owner, found(table).until_ms) == (None, T)
        with pytest.raises(StreamError, match="was given up"):  # a query that outlives its job must not write
            lease.check()
    assert len(owners) == 2
    assert clock.waits == 0


def test_a_second_run_is_refused_while_the_first_renews_and_the_error_names_it(hold: Hold) -> None:
    lines: list[str] = []
    refused = pytest.raises(
        CheckpointError, match=rf"is held by sessionize \(process {os.getpid()} on \S+\) since \S+ until \S+: stop that"
    )
    with hold() as lease:
        with refused, hold(lines):
            pytest.fail("two runs at once")
        assert lease.is_held
    assert len(lines) == 1
    assert lines[0].startswith(f"waiting for sessionize (process {os.getpid()} on ")


def test_a_killed_run_is_waited_for_until_its_lease_has_certainly_ended(
    table: StoredLease, hold: Hold, clock: FakeClock
) -> None:
    give_to(table, ELSEWHERE)
    lines: list[str] = []
    with hold(lines) as lease:
        assert found(table).host == socket.gethostname()
        waited_ms = clock.wall_ms - T
        assert TIMES.term_ms + TIMES.skew_ms < waited_ms <= TIMES.term_ms + TIMES.skew_ms + TIMES.poll_ms
        lease.check()
    assert lines == [
        f"waiting for {ELSEWHERE}, which holds {table}; if it was killed, the lease is free in "
        f"{(TIMES.term_ms + TIMES.skew_ms) // 1_000} s"
    ]


def test_a_lease_that_ended_long_ago_is_taken_at_once(table: StoredLease, hold: Hold, clock: FakeClock) -> None:
    give_to(table, ELSEWHERE)
    clock.advance(TIMES.term_ms + TIMES.skew_ms + 1)
    with hold():
        assert found(table).host == socket.gethostname()


def test_a_lease_whose_end_lies_too_far_ahead_is_refused(table: StoredLease, hold: Hold) -> None:
    give_to(table, replace(ELSEWHERE, until_ms=T + 100 * TIMES.term_ms))
    with pytest.raises(CheckpointError, match="is held by"), hold([]):
        pytest.fail("two runs at once")


def test_the_transaction_itself_refuses_a_lease_that_another_run_has(table: StoredLease) -> None:
    """Another run may have taken it since this one looked."""
    give_to(table, ELSEWHERE)
    for dead_owner in (None, "a former owner"):
        assert not table.take(replace(ELSEWHERE, owner="ours"), ELSEWHERE.until_ms, dead_owner)
    assert not table.give_up(replace(ELSEWHERE, owner="ours"), T)
    assert found(table) == ELSEWHERE


def test_a_stop_ends_the_wait(table: StoredLease, hold: Hold) -> None:
    give_to(table, ELSEWHERE)
    stop = threading.Event()
    stop.set()
    with pytest.raises(StoppedError, match="stopped while waiting for the lease"), hold([], stop):
        pytest.fail("stopped")
    assert found(table) == ELSEWHERE


def test_a_lease_that_cannot_be_taken_is_one_line_that_names_the_right(
    table: StoredLease, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: StoredLease) -> NoReturn:
        msg = "SCHEMA_NOT_FOUND"
        raise AnalysisException(msg)

    monkeypatch.setattr(StoredLease, "create", refuse)
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
    table: StoredLease, hold: Hold, clock: FakeClock, holder: dict[str, Any], *, is_freed: bool
) -> None:
    dead = {"host": socket.gethostname(), "pid_scope": pid_scope(), "pid": a_dead_process()}
    give_to(table, replace(ELSEWHERE, **{**dead, "engine_pid": dead["pid"], **holder}))
    stop = threading.Event()
    if is_freed:
        with hold():
            assert clock.waits == 0
    else:
        stop.set()
        with pytest.raises(StoppedError), hold([], stop):
            pytest.fail("it may still run")


def test_the_engine_of_this_run_is_known(spark: SparkSession) -> None:
    engine_pid = Holder.this_run(spark, "sessionize").engine_pid
    assert engine_pid is not None
    assert Path(f"/proc/{engine_pid}/cmdline").read_bytes().startswith(b"/")
    assert engine_pid != os.getpid()


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(None, id="new"),
        pytest.param(replace(ELSEWHERE, until_ms=T - TIMES.skew_ms - 1), id="ended", marks=pytest.mark.long),
    ],
)
def test_of_two_runs_that_take_it_at_the_same_moment_exactly_one_has_it(
    spark: SparkSession, location: TableLocation, before: Holder | None
) -> None:
    is_new = "new" if before is None else "ended"
    start = threading.Barrier(2)

    def take(table: StoredLease, owner: str) -> bool:
        run = replace(ELSEWHERE, owner=owner)
        start.wait(DEADLINE_S)
        return table.take(run, T - TIMES.skew_ms, None)

    with ThreadPoolExecutor(2) as pool:
        for number in range(ROUNDS):
            table = StoredLease(spark, location, f"{is_new} {number}")
            if before is not None:
                give_to(table, before)
            taken = list(pool.map(take, [table, table], ["first", "second"]))
            assert sum(taken) == 1, number
            assert found(table).owner == ("first" if taken[0] else "second")
            assert location.read(spark.read, JOB_LEASE).where(f"name = '{table.name}'").count() == 1


def test_two_runs_that_create_the_table_at_the_same_moment_both_have_it(spark: SparkSession, tmp_path: Path) -> None:
    table = StoredLease(spark, TableLocation(tmp_path), "stream")
    with ThreadPoolExecutor(2) as pool:
        for creation in [pool.submit(table.create) for _ in range(2)]:
            creation.result()
    assert table.read() is None
    properties = table.location.properties(spark, JOB_LEASE)
    assert properties["delta.isolationLevel"] == "Serializable"


def test_a_run_whose_commit_another_one_has_replaced_does_not_have_the_lease(
    table: StoredLease, hold: Hold, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on storage that does not refuse a second commit of the same number."""
    stop = threading.Event()
    waited: list[float] = []

    def wait(event: threading.Event, seconds: float) -> bool:
        waited.append(seconds)
        if len(waited) == 1:
            _replace_newest_commit(table)
        else:
            stop.set()
        return event.is_set()

    monkeypatch.setattr(clock, "wait", wait)
    with pytest.raises(StoppedError), hold([], stop, replace(TIMES, settle_ms=1_000)):
        pytest.fail("two runs at once")
    assert waited[0] == 1
    assert found(table).host == "another host"


def _replace_newest_commit(table: StoredLease) -> None:
    """Put the commit of another run, made from the same version, in the place of this run's."""
    assert table.location.warehouse is not None
    log = table.location.warehouse / JOB_LEASE.name / "_delta_log"
    ours = max(log.glob("*.json"))
    row = found(table)
    give_to(table, replace(ELSEWHERE, until_ms=row.until_ms))
    theirs = max(log.glob("*.json"))
    lines = [line for line in theirs.read_text(encoding="utf-8").splitlines() if not line.startswith('{"remove"')]
    theirs.unlink()
    ours.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for stale in (*log.glob(f".{ours.name}.crc"), *log.glob(f".{theirs.name}.crc"), *log.glob("*.crc")):
        stale.unlink(missing_ok=True)
