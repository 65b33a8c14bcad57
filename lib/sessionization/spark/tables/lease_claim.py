"""The lease that a run asks for: its name, its times, and the clocks by which they are measured."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from sessionization.clock import wall_clock_ms

STREAM_LEASE = "stream"
"""Held by the job that writes all tables, and by those that may only run while it does not."""
MAINTENANCE_LEASE = "maintenance"
"""Held by the jobs beside the stream that rewrite or delete rows."""
LANDING_LEASE = "land_changes"
"""Held by the job that copies changes from the topic into tables of a catalog."""


def no_lease() -> None:
    """Check nothing. A run that holds a lock uses this in place of `Lease.check`, because it needs no lease."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long a lease lasts, and when its holder and other runs act.

    The clocks of two hosts must differ by less than `skew_ms`. The holder stops using its lease `skew_ms` before the
    end, and other runs take it `skew_ms` after the end. So an append that the holder begins in time has time to end.
    """

    term_ms: int = 180_000
    renew_every_ms: int = 30_000
    retry_every_ms: int = 5_000
    skew_ms: int = 15_000
    stop_margin_ms: int = 75_000
    """The holder stops when less than this remains: a minute for a graceful stop, and the skew."""
    wait_ms: int = 20_000
    """How long a holder that lives may take to end, as for a folder's lock."""
    poll_ms: int = 2_000
    settle_ms: int = 1_000
    """Storage that lets one commit replace another of the same moment has done so after this time."""


def _since_boot_ms() -> int:
    """A clock that nobody sets, and that goes on while the process is stopped or the machine sleeps."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000


@dataclass(frozen=True, slots=True)
class Instant:
    """An instant on two clocks: the wall clock, which others see too, and one that nobody sets."""

    wall_ms: int
    steady_ms: int

    def plus(self, duration_ms: int) -> Self:
        return type(self)(self.wall_ms + duration_ms, self.steady_ms + duration_ms)

    def ms_since(self, earlier: "Instant") -> int:
        """The time that has passed since `earlier`. The two clocks may disagree; the shorter time counts."""
        return min(self.wall_ms - earlier.wall_ms, self.steady_ms - earlier.steady_ms)


@dataclass(frozen=True, slots=True)
class LeaseClock:
    """The clocks, and the wait for an event; tests replace them."""

    wall_ms: Callable[[], int] = wall_clock_ms
    steady_ms: Callable[[], int] = _since_boot_ms
    wait: Callable[[threading.Event, float], bool] = threading.Event.wait

    def now(self) -> Instant:
        return Instant(self.wall_ms(), self.steady_ms())


@dataclass(frozen=True, slots=True)
class Claim:
    """The lease that a run wants; `job` is the name of the program, for people.

    Without `stops_job` a lost lease does not set the job's `stop`: the job calls `Lease.check` before its few writes.
    """

    name: str
    job: str
    times: LeaseTimes = field(default_factory=LeaseTimes)
    clock: LeaseClock = field(default_factory=LeaseClock)
    stops_job: bool = True
