"""A lease: one run at a time works on the tables, also where no lock of an operating system reaches.

docs/adr/0034-lease.md has the reasons and the limits.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from sessionization.clock import utc, wall_clock_ms
from sessionization.errors import (
    CheckpointError,
    ConfigurationError,
    SessionizationError,
    StateError,
    StoppedError,
    StreamError,
)
from sessionization.say import Say
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.engine.session import use_scheduler_pool
from sessionization.spark.tables.lease_table import Holder, StoredLease
from sessionization.spark.tables.s3_commits import single_driver_warning
from sessionization.spark.tables.schemas import JOB_LEASE

_log = logging.getLogger(__name__)

STREAM_LEASE = "stream"
"""Held by the job that writes all tables, and by those that may only run while it does not."""
MAINTENANCE_LEASE = "maintenance"
"""Held by the jobs beside the stream that rewrite or delete rows."""
LANDING_LEASE = "land_changes"
"""Held by the job that copies changes from the topic into tables of a catalog."""

PLAYERS_LEASE = "players"
"""Held by the job that writes the tables of players and days, and by those that note days for it."""

TERM_MS = 180_000
SKEW_MS = 15_000
"""The clocks of two hosts must differ by less. The holder stops using its lease so long before the end, and other runs
take it so long after the end. So an append that the holder begins in time has time to end."""
RENEW_EVERY_S = 30
RETRY_EVERY_S = 5
WAIT_MS = 20_000
"""How long a holder that lives may take to end, as for a folder's lock."""
POLL_S = 2
SETTLE_S = 1
"""Storage that lets one commit replace another of the same moment has done so after this time."""
_GIVE_UP_WITHIN_S = 5


class Instant(NamedTuple):
    """An instant on two clocks: the wall clock, which others see too, and one that nobody sets."""

    wall_ms: int
    steady_ms: int


def _since_boot_ms() -> int:
    """A clock that nobody sets, and that goes on while the process is stopped or the machine sleeps."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000


@dataclass(frozen=True, slots=True)
class LeaseClock:
    """The clocks, and the wait for an event; tests replace them."""

    wall_ms: Callable[[], int] = wall_clock_ms
    steady_ms: Callable[[], int] = _since_boot_ms
    wait: Callable[[threading.Event, float], bool] = threading.Event.wait

    def end_of_term(self) -> Instant:
        """The end of a lease that is taken or renewed now."""
        return Instant(self.wall_ms() + TERM_MS, self.steady_ms() + TERM_MS)

    def left_ms(self, end: Instant) -> int:
        """The time until `end`. The two clocks may disagree; the shorter time counts."""
        return min(end.wall_ms - self.wall_ms(), end.steady_ms - self.steady_ms())


class Lease:
    """A lease that this run has taken. `renew_until` runs in a thread of its own."""

    def __init__(self, stored: StoredLease, run: Holder, clock: LeaseClock, end: Instant) -> None:
        self._stored, self._run, self._clock = stored, run, clock
        self._end = end
        """The end that this run is sure of: counted from before the last renewal began."""
        self._last_error = "no renewal has ended in time"
        self.loss: str | None = None
        """Why this run may not write any more."""

    def check(self) -> None:
        """Raises `StreamError` unless this run holds the lease. It only compares clocks: call it before each append.

        The clocks go on while the process does not, so it notices too that the process slept.
        """
        if self.loss is None and self._clock.left_ms(self._end) <= SKEW_MS:
            end = utc(self._end.wall_ms).isoformat(timespec="seconds")
            self.loss = (
                f"{self._stored} is over ({end}; {self._last_error}), and another run may have it: "
                "start again with the same options; nothing is lost"
            )
        if self.loss is not None:
            raise StreamError(self.loss)

    def close(self) -> None:
        """Let `check` fail from now on: a query that outlives its job must not write."""
        self.loss = self.loss or f"{self._stored} was given up, because its job has ended"

    def renew_until(self, is_over: threading.Event, stop: threading.Event) -> None:
        """Renew the lease until `is_over` is set, and then give it up; set `stop` when it is lost."""
        with contextlib.suppress(Exception):  # another part reports a dead engine
            use_scheduler_pool(self._stored.spark, JOB_LEASE.name)
        wait_s = RENEW_EVERY_S
        while not self._clock.wait(is_over, wait_s):
            try:
                self._renew()
                wait_s = RENEW_EVERY_S
            except Exception as error:  # noqa: BLE001 - it is tried again until the lease is over
                self._last_error = root_cause(str(error))
                _log.warning("%s was not renewed: %s", self._stored, self._last_error)
                wait_s = RETRY_EVERY_S
            try:
                self.check()
            except StreamError:
                stop.set()
                return
        try:
            self._stored.give_up(self._run, self._clock.wall_ms())
        except Exception as error:  # noqa: BLE001 - it ends by itself
            _log.warning("%s was not given up: %s", self._stored, root_cause(str(error)))

    def _renew(self) -> None:
        end = self._clock.end_of_term()
        if self._stored.renew(self._run, end.wall_ms):
            self._end = end
            return
        holder = self._stored.read()
        by = "nobody has it" if holder is None else f"the last one to take it is {holder}"
        self.loss = f"{self._stored} was taken from this run ({by}): stop one of the two runs"


@contextlib.contextmanager
def hold_lease(
    stored: StoredLease, job: str, say: Say, stop: threading.Event, clock: LeaseClock | None = None
) -> Iterator[Lease]:
    """Take a lease, renew it while the body runs, and give it up. It sets `stop` when it is lost.

    Raises `CheckpointError` where a run that lives holds the lease, `ConfigurationError` where its table cannot be
    used, `StoppedError` where `stop` is set before it is taken, and at the end `StreamError` where the lease is lost.
    """
    try:
        stored.create()
        if (warning := single_driver_warning(stored.spark, stored.location)) is not None:
            say(warning)
        lease = _take(stored, Holder.this_run(stored.spark, job), clock or LeaseClock(), say, stop)
    except Py4JNetworkError:  # the engine has died
        raise
    except (PySparkException, Py4JError) as error:
        msg = (
            f"{stored} cannot be taken ({root_cause(str(error))}): check the location of the tables; this user needs "
            f"the right to create the table {JOB_LEASE.name} there, or to change it"
        )
        raise ConfigurationError(msg) from error
    is_over = threading.Event()
    thread = threading.Thread(target=lease.renew_until, args=(is_over, stop), name=JOB_LEASE.name, daemon=True)
    thread.start()
    try:
        yield lease
        if lease.loss is not None:
            raise StreamError(lease.loss)
    except StateError:  # says what to do with the checkpoint
        raise
    except SessionizationError:  # a lost lease explains it
        lease.check()
        raise
    finally:
        lease.close()
        is_over.set()
        thread.join(_GIVE_UP_WITHIN_S)
        if thread.is_alive():
            say(f"{stored} is not given up: the next start may wait for its end")


def _take(stored: StoredLease, run: Holder, clock: LeaseClock, say: Say, stop: threading.Event) -> Lease:
    """Wait until the lease is free, and take it.

    A run that was killed leaves its lease behind until it ends. A run that lives shows by its renewals.
    """
    began_ms, first = clock.steady_ms(), None
    while True:
        holder, end = stored.read(), clock.end_of_term()
        now_ms = end.wall_ms - TERM_MS
        ended_before_ms = now_ms - SKEW_MS
        dead_owner = holder.owner if holder is not None and holder.has_died else None
        if holder is None or dead_owner is not None or holder.is_free(ended_before_ms):
            taken = replace(run, since_ms=now_ms, until_ms=end.wall_ms)
            if stored.take(taken, ended_before_ms, dead_owner):
                clock.wait(threading.Event(), SETTLE_S)
                if stored.is_of(taken):
                    return Lease(stored, taken, clock, end)
        else:
            waited_ms = clock.steady_ms() - began_ms
            is_alive = first is not None and (first.owner, first.until_ms) != (holder.owner, holder.until_ms)
            if (is_alive and waited_ms >= WAIT_MS) or waited_ms > TERM_MS + 2 * SKEW_MS:
                free = utc(holder.until_ms + SKEW_MS).isoformat(timespec="seconds")
                msg = f"{stored} is held by {holder}: stop that first; if it was killed, start again after {free}"
                raise CheckpointError(msg)
            if first is None:
                first = holder
                left_s = max(holder.until_ms - ended_before_ms, 0) // 1_000
                say(f"waiting for {holder}, which holds {stored}; if it was killed, the lease is free in {left_s} s")
        if clock.wait(stop, POLL_S):
            msg = f"stopped while waiting for {stored}; nothing was begun"
            raise StoppedError(msg)
