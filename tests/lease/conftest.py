"""A lease for each test, and a way to hold it."""

import pytest

from sessionization.spark.tables import lease as lease_module
from tests.lease.stand import FakeClock, Hold, MemoryLease, holding, memory_lease


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> MemoryLease:
    """A lease in memory, which `hold_lease` uses too."""
    table = memory_lease(f"{request.node.name}'s")
    monkeypatch.setattr(lease_module, "StoredLease", lambda *_: table)
    return table


@pytest.fixture
def hold(table: MemoryLease, clock: FakeClock) -> Hold:
    return holding(table, clock)
