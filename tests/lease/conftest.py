"""A lease for each test, and a way to hold it."""

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sessionization.spark.tables.lease import Lease, hold_lease
from sessionization.spark.tables.lease_claim import Claim, LeaseTimes
from sessionization.spark.tables.lease_table import StoredLease
from sessionization.spark.tables.location import TableLocation
from tests.lease.stand import TIMES, FakeClock, refuse_line


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="module")
def location(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> TableLocation:
    location = TableLocation(tmp_path_factory.mktemp("ware house"))
    StoredLease(spark, location, "any").create()
    return location


@pytest.fixture
def table(spark: SparkSession, location: TableLocation, request: pytest.FixtureRequest) -> StoredLease:
    """A lease that no other test uses."""
    return StoredLease(spark, location, f"{request.node.name}'s")


@pytest.fixture
def hold(table: StoredLease, clock: FakeClock) -> Callable[..., contextlib.AbstractContextManager[Lease]]:
    def hold(
        lines: list[str] | None = None,
        stop: threading.Event | None = None,
        times: LeaseTimes = TIMES,
        *,
        stops_job: bool = True,
    ) -> contextlib.AbstractContextManager[Lease]:
        say: Any = refuse_line if lines is None else lines.append
        claim = Claim(table.name, "sessionize", times, clock.clock(), stops_job)
        return hold_lease(table.spark, table.location, claim, say, stop or threading.Event())

    return hold
