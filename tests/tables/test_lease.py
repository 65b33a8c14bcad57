"""The lease: one run has it at a time, it ends with a dead run, and a run that lost it stops before it writes."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from sessionization.errors import CheckpointError, ConfigurationError, StoppedError, StreamError
from sessionization.spark.checkpoint.folder_lock import pid_scope
from sessionization.spark.tables.lease import Lease, hold_lease
from sessionization.spark.tables.lease_claim import Claim, Instant, LeaseClock, LeaseTimes
from sessionization.spark.tables.lease_table import Holder, LeaseTable
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import JOB_LEASE

pytestmark = pytest.mark.spark

T = 1_763_726_400_000
TIMES = LeaseTimes(poll_ms=10_000, settle_ms=0)
ELSEWHERE = Holder("theirs", "sessionize", "another host", 7, "another scope", 8, T - 1_000, T + TIMES.term_ms)
ROUNDS = 4
DEADLINE_S = 60


class FakeClock:
    """Time goes on when a test says so, and by each wait of the thread that takes a lease; the others wait for it."""

    def __init__(self) -> None:
        self.wall_ms, self.steady_ms, self.waits = T, 1_000_000, 0
        self.rests = False
        """Whether the thread that renews waits for its next renewal."""

    def clock(self) -> LeaseClock:
        return LeaseClock(lambda: self.wall_ms, lambda: self.steady_ms, self.wait)

    def advance(self, duration_ms: int) -> None:
        self.wall_ms += duration_ms
        self.steady_ms += duration_ms

    def advance_once_it_rests(self, duration_ms: int) -> None:
        eventually(lambda: self.rests)
        self.rests = False
        self.advance(duration_ms)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if threading.current_thread().name == JOB_LEASE.name:
            until_ms = self.steady_ms + 1_000 * seconds
            self.rests = self.rests or seconds > 1
            while self.steady_ms < until_ms and not event.wait(0.005):
                pass
        elif seconds:
            self.waits += 1
            self.advance(int(1_000 * seconds))
        return event.is_set()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="module")
def location(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> TableLocation:
    location = TableLocation(tmp_path_factory.mktemp("ware house"))
    LeaseTable(spark, location, "any").create()
    return location


@pytest.fixture
def table(spark: SparkSession, location: TableLocation, request: pytest.FixtureRequest) -> LeaseTable:
    """A lease that no other test uses."""
    return LeaseTable(spark, location, f"{request.node.name}'s")


@pytest.fixture
def hold(table: LeaseTable, clock: FakeClock) -> Callable[..., contextlib.AbstractContextManager[Lease]]:
    def hold(
        lines: list[str] | None = None,
        stop: threading.Event | None = None,
        times: LeaseTimes = TIMES,
        *,
        stops_job: bool = True,
    ) -> contextlib.AbstractContextManager[Lease]:
        say: Any = _no_line if lines is None else lines.append
        claim = Claim(table.name, "sessionize", times, clock.clock(), stops_job)
        return hold_lease(table.spark, table.location, claim, say, stop or threading.Event())

    return hold


Hold = Callable[..., contextlib.AbstractContextManager[Lease]]


def _no_line(line: str) -> None:
    raise AssertionError(line)


def eventually(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def found(table: LeaseTable) -> Holder:
    holder = table.read()
    assert holder is not None
    return holder


def give_to(table: LeaseTable, holder: Holder) -> None:
    assert table.take(holder, T + 10 * TIMES.term_ms, None)


def test_a_lease_is_taken_and_given_up_and_then_free_at_once(table: LeaseTable, hold: Hold, clock: FakeClock) -> None:
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
    table: LeaseTable, hold: Hold, clock: FakeClock
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


def test_a_lease_that_ended_long_ago_is_taken_at_once(table: LeaseTable, hold: Hold, clock: FakeClock) -> None:
    give_to(table, ELSEWHERE)
    clock.advance(TIMES.term_ms + TIMES.skew_ms + 1)
    with hold():
        assert found(table).host == socket.gethostname()


def test_a_lease_whose_end_lies_too_far_ahead_is_refused(table: LeaseTable, hold: Hold) -> None:
    give_to(table, replace(ELSEWHERE, until_ms=T + 100 * TIMES.term_ms))
    with pytest.raises(CheckpointError, match="is held by"), hold([]):
        pytest.fail("two runs at once")


def test_the_transaction_itself_refuses_a_lease_that_another_run_has(table: LeaseTable) -> None:
    """Another run may have taken it since this one looked."""
    give_to(table, ELSEWHERE)
    for dead_owner in (None, "a former owner"):
        assert not table.take(replace(ELSEWHERE, owner="ours"), ELSEWHERE.until_ms, dead_owner)
    assert not table.give_up(replace(ELSEWHERE, owner="ours"), T)
    assert found(table) == ELSEWHERE


def test_a_stop_ends_the_wait(table: LeaseTable, hold: Hold) -> None:
    give_to(table, ELSEWHERE)
    stop = threading.Event()
    stop.set()
    with pytest.raises(StoppedError, match="stopped while waiting for the lease"), hold([], stop):
        pytest.fail("stopped")
    assert found(table) == ELSEWHERE


def test_renewals_hold_the_lease_longer_than_its_term(table: LeaseTable, hold: Hold, clock: FakeClock) -> None:
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
    table: LeaseTable, hold: Hold, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = threading.Event()
    with hold() as lease:
        with monkeypatch.context() as failing:
            failing.setattr(LeaseTable, "renew", lambda *_: tried.set() or _fails())
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
    monkeypatch.setattr(LeaseTable, "renew", lambda *_: (hangs and goes_on.wait(DEADLINE_S)) or _fails())
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


def test_a_run_whose_lease_was_taken_away_is_stopped_at_once(table: LeaseTable, hold: Hold, clock: FakeClock) -> None:
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
    table: LeaseTable, hold: Hold, clock: FakeClock, of_the_body: type[Exception]
) -> None:
    stop, text = threading.Event(), "taken from this run"
    lost = pytest.raises(StreamError, match=text)
    with lost, hold([], stop):
        give_to(table, ELSEWHERE)
        clock.advance_once_it_rests(TIMES.renew_every_ms)
        assert stop.wait(DEADLINE_S)
        raise of_the_body


def test_a_job_that_only_checks_its_lease_ends_well_where_the_loss_came_after_its_last_write(
    table: LeaseTable, hold: Hold, clock: FakeClock
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


def test_a_lease_that_cannot_be_taken_is_one_line_that_names_the_right(
    table: LeaseTable, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: LeaseTable) -> NoReturn:
        msg = "SCHEMA_NOT_FOUND"
        raise AnalysisException(msg)

    monkeypatch.setattr(LeaseTable, "create", refuse)
    text = r"the lease .* cannot be taken \(SCHEMA_NOT_FOUND\): .* the right to create the table job_lease"
    with pytest.raises(ConfigurationError, match=text), hold():
        pytest.fail("it was taken")


def test_an_error_of_the_body_is_the_one_that_is_raised(table: LeaseTable, hold: Hold, clock: FakeClock) -> None:
    stop = threading.Event()
    raised = pytest.raises(ZeroDivisionError)
    with raised, hold([], stop):
        give_to(table, ELSEWHERE)
        clock.advance_once_it_rests(TIMES.renew_every_ms)
        assert stop.wait(DEADLINE_S)
        raise ZeroDivisionError


@pytest.mark.parametrize("jumping", ["wall_ms", "steady_ms"])
def test_a_run_that_slept_fails_the_check_before_anything_else(table: LeaseTable, jumping: str) -> None:
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
    table: LeaseTable, hold: Hold, clock: FakeClock, holder: dict[str, Any], *, is_freed: bool
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


@pytest.mark.parametrize("before", [None, replace(ELSEWHERE, until_ms=T - TIMES.skew_ms - 1)], ids=["new", "ended"])
def test_of_two_runs_that_take_it_at_the_same_moment_exactly_one_has_it(
    spark: SparkSession, location: TableLocation, before: Holder | None
) -> None:
    is_new = "new" if before is None else "ended"
    start = threading.Barrier(2)

    def take(table: LeaseTable, owner: str) -> bool:
        run = replace(ELSEWHERE, owner=owner)
        start.wait(DEADLINE_S)
        return table.take(run, T - TIMES.skew_ms, None)

    with ThreadPoolExecutor(2) as pool:
        for number in range(ROUNDS):
            table = LeaseTable(spark, location, f"{is_new} {number}")
            if before is not None:
                give_to(table, before)
            taken = list(pool.map(take, [table, table], ["first", "second"]))
            assert sum(taken) == 1, number
            assert found(table).owner == ("first" if taken[0] else "second")
            assert location.read(spark.read, JOB_LEASE).where(f"name = '{table.name}'").count() == 1


def test_two_runs_that_create_the_table_at_the_same_moment_both_have_it(spark: SparkSession, tmp_path: Path) -> None:
    table = LeaseTable(spark, TableLocation(tmp_path), "stream")
    with ThreadPoolExecutor(2) as pool:
        for creation in [pool.submit(table.create) for _ in range(2)]:
            creation.result()
    assert table.read() is None
    properties = table.location.properties(spark, JOB_LEASE)
    assert properties["delta.isolationLevel"] == "Serializable"


def test_a_run_whose_commit_another_one_has_replaced_does_not_have_the_lease(
    table: LeaseTable, hold: Hold, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
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


def _replace_newest_commit(table: LeaseTable) -> None:
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
