"""A lease for each test, and a way to hold it."""

import pytest

from tests.lease.stand import FakeClock, Hold, MemoryLease, holding, memory_lease


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def table(request: pytest.FixtureRequest) -> MemoryLease:
    """A lease in memory."""
    return memory_lease(f"{request.node.name}'s")


@pytest.fixture
def hold(table: MemoryLease, clock: FakeClock) -> Hold:
    return holding(table, clock)
