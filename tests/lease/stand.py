"""A clock that the tests of the lease set, and what they ask of its table."""

import contextlib
import threading
import time
from collections.abc import Callable

from sessionization.spark.tables.lease import Lease
from sessionization.spark.tables.lease_claim import LeaseClock, LeaseTimes
from sessionization.spark.tables.lease_table import Holder, StoredLease
from sessionization.spark.tables.schemas import JOB_LEASE

T = 1_763_726_400_000
TIMES = LeaseTimes(poll_ms=10_000, settle_ms=0)
ELSEWHERE = Holder("theirs", "sessionize", "another host", 7, "another scope", 8, T - 1_000, T + TIMES.term_ms)
ROUNDS = 4
DEADLINE_S = 60

Hold = Callable[..., contextlib.AbstractContextManager[Lease]]


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


def refuse_line(line: str) -> None:
    raise AssertionError(line)


def eventually(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def found(table: StoredLease) -> Holder:
    holder = table.read()
    assert holder is not None
    return holder


def give_to(table: StoredLease, holder: Holder) -> None:
    assert table.take(holder, T + 10 * TIMES.term_ms, None)
