"""A lease: one run at a time works on the tables, also where no lock of an operating system reaches.

docs/adr/0034-lease.md has the reasons and the limits.
"""

import contextlib
import logging
import threading
from collections.abc import Iterator
from dataclasses import replace

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sessionization.clock import utc
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
from sessionization.spark.tables.lease_claim import Claim, Instant
from sessionization.spark.tables.lease_table import Holder, StoredLease
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.s3_commits import single_driver_warning
from sessionization.spark.tables.schemas import JOB_LEASE

_log = logging.getLogger(__name__)

_WATCH_EVERY_S = 1
_GIVE_UP_WITHIN_S = 5
_START_AGAIN = "start again with the same options; nothing is lost"
_NO_RENEWAL = "no renewal has ended in time"


class Lease:
    """A lease that this run has taken. `renew_until` and `watch_until` run in two threads of their own."""

    def __init__(self, stored: StoredLease, run: Holder, claim: Claim, end: Instant) -> None:
        self._stored, self._run, self._claim = stored, run, claim
        self._end = end
        """The end that this run is sure of: counted from before the last renewal began."""
        self._loss: str | None = None
        self._why_stopped: str | None = None
        self._is_given_up = False
        self._last_error = _NO_RENEWAL

    @property
    def is_held(self) -> bool:
        return self._loss is None and not self._is_given_up and self._remaining_ms() > self._claim.times.skew_ms

    def check(self) -> None:
        """Raises `StreamError` unless this run holds the lease. It only compares clocks: call it before each append.

        The clocks go on while the process does not, so it notices too that the process slept.
        """
        if self._loss is not None:
            raise StreamError(self._loss)
        if self._is_given_up:
            msg = f"{self._stored} was given up, because its job has ended"
            raise StreamError(msg)
        if not self.is_held:
            end = utc(self._end.wall_ms).isoformat(timespec="seconds")
            msg = f"{self._stored} is over ({end}; {self._last_error}), and another run may have it: {_START_AGAIN}"
            raise StreamError(msg)

    def close(self) -> None:
        """Let `check` fail from now on: a query that outlives its job must not write."""
        self._is_given_up = True

    def raise_reason_of_stop(self) -> None:
        """Raises `StreamError` where the lease has set `stop`."""
        if self._why_stopped is not None:
            raise StreamError(self._why_stopped)

    def renew_until(self, is_over: threading.Event, stop: threading.Event, say: Say) -> None:
        """Renew the lease until `is_over` is set, and then give it up; set `stop` where another run has taken it."""
        with contextlib.suppress(Exception):  # another part reports a dead engine
            use_scheduler_pool(self._stored.spark, JOB_LEASE.name)
        times = self._claim.times
        wait_ms = times.renew_every_ms
        while not self._claim.clock.wait(is_over, wait_ms / 1_000):
            wait_ms = times.renew_every_ms
            try:
                self._renew()
            except Exception as error:  # noqa: BLE001 - it is tried again, and `watch_until` watches the end
                self._last_error = root_cause(str(error))
                _log.warning("%s was not renewed: %s", self._stored, self._last_error)
                wait_ms = times.retry_every_ms
            if self._loss is not None:
                self._stop_job(self._loss, stop, say)
                return
        try:
            self._stored.give_up(self._run, self._claim.clock.wall_ms())
        except Exception as error:  # noqa: BLE001 - it ends by itself
            _log.warning("%s was not given up: %s", self._stored, root_cause(str(error)))

    def watch_until(self, is_over: threading.Event, stop: threading.Event, say: Say) -> None:
        """Set `stop` when little of the lease remains. It does not renew, because a renewal may hang."""
        while not self._claim.clock.wait(is_over, _WATCH_EVERY_S):
            remaining_ms = self._remaining_ms()
            if remaining_ms < self._claim.times.stop_margin_ms and self._why_stopped is None:
                remaining = f"ends in {remaining_ms // 1_000} s" if remaining_ms > 0 else "is over"
                why = f"{self._stored} {remaining} ({self._last_error}), so the job stops: {_START_AGAIN}"
                self._stop_job(why, stop, say)

    def _renew(self) -> None:
        end = self._claim.clock.now().plus(self._claim.times.term_ms)
        if self._stored.renew(self._run, end.wall_ms):
            self._end, self._last_error = end, _NO_RENEWAL
            return
        holder = self._stored.read()
        by = "nobody has it" if holder is None else f"the last one to take it is {holder}"
        self._loss = f"{self._stored} was taken from this run ({by}): stop one of the two runs"

    def _stop_job(self, why: str, stop: threading.Event, say: Say) -> None:
        say(why)
        if self._claim.stops_job:
            self._why_stopped = why
            stop.set()

    def _remaining_ms(self) -> int:
        return self._end.ms_since(self._claim.clock.now())


@contextlib.contextmanager
def hold_lease(
    spark: SparkSession, location: TableLocation, claim: Claim, say: Say, stop: threading.Event
) -> Iterator[Lease]:
    """Take a lease, renew it while the body runs, and give it up. It sets `stop` when it is lost or nearly over.

    Raises `CheckpointError` where a run that lives holds the lease, `ConfigurationError` where its table cannot be
    used, `StoppedError` where `stop` is set before it is taken, and at the end `StreamError` where the lease has set
    `stop` or is lost.
    """
    stored = StoredLease(spark, location, claim.name)
    try:
        stored.create()
        if (warning := single_driver_warning(spark, location)) is not None:
            say(warning)
        lease = _take(stored, Holder.this_run(spark, claim.job), claim, say, stop)
    except Py4JNetworkError:  # the engine has died
        raise
    except (PySparkException, Py4JError) as error:
        msg = (
            f"{stored} cannot be taken ({root_cause(str(error))}): check the location of the tables; this user needs "
            f"the right to create the table {JOB_LEASE.name} there, or to change it"
        )
        raise ConfigurationError(msg) from error
    is_over = threading.Event()
    threads = [
        threading.Thread(target=task, args=(is_over, stop, say), name=JOB_LEASE.name, daemon=True)
        for task in (lease.renew_until, *((lease.watch_until,) if claim.stops_job else ()))
    ]
    for thread in threads:
        thread.start()
    try:
        yield lease
    except StateError:  # says what to do with the checkpoint
        raise
    except SessionizationError:  # a lost lease explains it
        lease.raise_reason_of_stop()
        lease.check()
        raise
    finally:
        lease.close()
        is_over.set()
        for thread in threads:
            thread.join(_GIVE_UP_WITHIN_S)
        if any(thread.is_alive() for thread in threads):
            say(f"{stored} is not given up: the next start may wait for its end")
    lease.raise_reason_of_stop()


def _take(stored: StoredLease, run: Holder, claim: Claim, say: Say, stop: threading.Event) -> Lease:
    """Wait until the lease is free, and take it.

    A run that was killed leaves its lease behind until it ends. A run that lives shows by its renewals.
    """
    times, began_ms, first = claim.times, claim.clock.steady_ms(), None
    while True:
        try:
            holder = stored.read()
        except PySparkException as error:
            if first is None:
                raise
            _log.warning("%s was not read: %s", stored, root_cause(str(error)))
            holder = first
        now = claim.clock.now()
        ended_before_ms = now.wall_ms - times.skew_ms
        dead_owner = holder.owner if holder is not None and holder.has_died else None
        if holder is None or dead_owner is not None or holder.is_free(ended_before_ms):
            end = now.plus(times.term_ms)
            taken = replace(run, since_ms=now.wall_ms, until_ms=end.wall_ms)
            if stored.take(taken, ended_before_ms, dead_owner):
                claim.clock.wait(threading.Event(), times.settle_ms / 1_000)
                if stored.is_of(taken):
                    return Lease(stored, taken, claim, end)
        else:
            waited_ms = claim.clock.steady_ms() - began_ms
            is_alive = first is not None and (first.owner, first.until_ms) != (holder.owner, holder.until_ms)
            if (is_alive and waited_ms >= times.wait_ms) or waited_ms > times.term_ms + 2 * times.skew_ms:
                free = utc(holder.until_ms + times.skew_ms).isoformat(timespec="seconds")
                msg = f"{stored} is held by {holder}: stop that first; if it was killed, start again after {free}"
                raise CheckpointError(msg)
            if first is None:
                first = holder
                left_s = max(holder.until_ms - ended_before_ms, 0) // 1_000
                say(f"waiting for {holder}, which holds {stored}; if it was killed, the lease is free in {left_s} s")
        if claim.clock.wait(stop, times.poll_ms / 1_000):
            msg = f"stopped while waiting for {stored}; nothing was begun"
            raise StoppedError(msg)
