"""A lease in memory, a clock that the tests of the lease set, and what they ask of its table."""

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from sessionization.spark.tables.lease import TERM_MS, Lease, LeaseClock
from sessionization.spark.tables.lease_table import Holder, StoredLease
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import JOB_LEASE
from tests.support.waiting import wait_for

T = 1_763_726_400_000
ELSEWHERE = Holder("theirs", "sessionize", "another host", 7, "another scope", 8, T - 1_000, T + TERM_MS)
DEADLINE_S = 60

Hold = Callable[..., contextlib.AbstractContextManager[Lease]]


class FakeClock:
    """Time goes on when a test says so, and by each wait of the thread that takes a lease; the others wait for it.

    Such a wait ends when the thread that renews another lease has done what was due meanwhile.
    """

    def __init__(self) -> None:
        self.wall_ms, self.steady_ms, self.waits = T, 1_000_000, 0
        self._renewal_ms: float | None = None
        """When the thread that renews wants to act next; None before it waits, and once it is told to end."""

    @property
    def rests(self) -> bool:
        """Whether the thread that renews waits for its next renewal."""
        return self._renewal_ms is not None and self._renewal_ms > self.steady_ms

    def clock(self) -> LeaseClock:
        return LeaseClock(lambda: self.wall_ms, lambda: self.steady_ms, self.wait)

    def advance(self, duration_ms: int) -> None:
        self.wall_ms += duration_ms
        self.steady_ms += duration_ms

    def advance_once_it_rests(self, duration_ms: int) -> None:
        eventually(lambda: self.rests)
        self.advance(duration_ms)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if threading.current_thread().name == JOB_LEASE.name:
            until_ms = self._renewal_ms = self.steady_ms + 1_000 * seconds
            while self.steady_ms < until_ms and not event.wait(0.005):
                pass
            if event.is_set():
                self._renewal_ms = None
        elif seconds:
            self.waits += 1
            self.advance(int(1_000 * seconds))
            eventually(lambda: self._renewal_ms is None or self.rests)
        return event.is_set()


@dataclass(frozen=True)
class MemoryLease(StoredLease):
    """Keeps the row of a lease in memory. `test_stored_lease.py` asks the same of it as of the real table."""

    rows: list[Holder] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def create(self) -> None:
        """It needs no table."""

    def read(self) -> Holder | None:
        with self.lock:
            return self.rows[0] if self.rows else None

    def take(self, run: Holder, ended_before_ms: int, dead_owner: str | None) -> bool:
        with self.lock:
            is_free = all(row.until_ms < ended_before_ms or row.owner in {None, dead_owner} for row in self.rows)
            if is_free:
                self.rows[:] = [run]
            return is_free

    def renew(self, run: Holder, until_ms: int) -> bool:
        return self._change(run, until_ms=until_ms)

    def give_up(self, run: Holder, now_ms: int) -> bool:
        return self._change(run, owner=None, until_ms=now_ms)

    def _change(self, run: Holder, **values: Any) -> bool:
        with self.lock:
            is_ours = [row.owner for row in self.rows] == [run.owner]
            if is_ours:
                self.rows[:] = [replace(self.rows[0], **values)]
            return is_ours


def memory_lease(name: str) -> MemoryLease:
    return MemoryLease(None, TableLocation.parse("/ware house"), name)


def eventually(condition: Callable[[], bool]) -> None:
    wait_for(condition, within_s=DEADLINE_S)


def found(table: StoredLease) -> Holder:
    holder = table.read()
    assert holder is not None
    return holder


def give_to(table: StoredLease, holder: Holder) -> None:
    assert table.take(holder, T + 10 * TERM_MS, None)
