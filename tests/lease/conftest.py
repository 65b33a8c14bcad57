"""A lease for each test, and a way to hold it."""

import contextlib
import threading
from typing import Any

import pytest

from sessionization.spark.tables.lease import Lease, hold_lease
from tests.lease.stand import FakeClock, Hold, MemoryLease, memory_lease
from tests.support.waiting import expect_no_line


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def table(request: pytest.FixtureRequest) -> MemoryLease:
    """A lease in memory."""
    return memory_lease(f"{request.node.name}'s")


@pytest.fixture
def hold(table: MemoryLease, clock: FakeClock) -> Hold:
    """A function that holds the lease as a job does."""

    def hold(
        lines: list[str] | None = None, stop: threading.Event | None = None
    ) -> contextlib.AbstractContextManager[Lease]:
        say: Any = expect_no_line if lines is None else lines.append
        return hold_lease(table, "sessionize", say, stop or threading.Event(), clock.clock())

    return hold
