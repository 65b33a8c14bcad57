"""The moments at which the job can be cut off, recognised by its files before the kill and again after it."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tests.support.traces import Stage, Traces

_START_UP_S = (0.5, 12)
_AT_RANDOM_S = (0, 5)
_WITHIN_TIMER_BATCH_S = (0, 0.6)


class Boundary(StrEnum):
    """A moment at which a test kills the job."""

    STARTING = "starting"
    OFFSET_LOGGED = "offset_logged"
    STATE_HALF_COMMITTED = "state_half_committed"
    STATE_COMMITTED = "state_committed"
    CHANGES_COMMITTED = "changes_committed"
    TIMER_BATCH = "timer_batch"
    RAW_EVENTS_COMMITTED = "raw_events_committed"
    MERGING = "merging"
    PROGRESS_APPENDED = "progress_appended"
    AT_RANDOM = "at_random"


@dataclass(frozen=True)
class Moment:
    """A boundary to wait for; made just before a start, so that only the work of this start can reach it.

    `reached` says whether the job is at the boundary now, and `is_exact` whether the files of the killed job still show
    exactly this boundary: SIGKILL comes a moment later. With `is_quiet` no input may come meanwhile.
    """

    reached: Callable[[], bool]
    is_exact: Callable[[], bool]
    is_quiet: bool = False


def _at_stage(traces: Traces, stage: Stage) -> Moment:
    """A micro-batch of `sessionize` has reached a stage; one that the last kill left there must reach it again."""
    before = traces.stage()

    def reached() -> bool:
        now = traces.stage()
        return now[1] is stage and now != before

    return Moment(reached, reached)


def _timer_batch(traces: Traces, rng: random.Random) -> Moment:
    """A micro-batch without input has run for a random time; the oracle shows whether timers were due in it."""
    started_before, after_s = traces.started(), rng.uniform(*_WITHIN_TIMER_BATCH_S)
    batch_id, since_s = -1, 0.0

    def is_exact() -> bool:
        is_running = traces.committed() < batch_id and batch_id > started_before
        return is_running and traces.takes_no_files(batch_id)

    def reached() -> bool:
        nonlocal batch_id, since_s
        if traces.started() > batch_id:
            batch_id, since_s = traces.started(), time.monotonic()
        return is_exact() and time.monotonic() >= since_s + after_s

    return Moment(reached, is_exact, is_quiet=True)


def _raw_events_committed(traces: Traces, _rng: random.Random) -> Moment:
    """`archive` has written messages, and has not committed their micro-batch."""
    before = traces.written("raw_events", "archive")

    def reached() -> bool:
        return traces.written("raw_events", "archive") > max(before, traces.committed("archive"))

    return Moment(reached, reached)


def _merging(traces: Traces, _rng: random.Random) -> Moment:
    """A MERGE has started to write a file of `sessions`, and has not committed it."""
    before = traces.unnamed_files()

    def reached() -> bool:
        return bool(traces.unnamed_files() - before)

    return Moment(reached, reached)


def _progress_appended(traces: Traces, _rng: random.Random) -> Moment:
    """Rows of `stream_progress` are in the table, and are still stored in the checkpoint."""
    before = traces.progress_commits()

    def reached() -> bool:
        nonlocal before
        commits = traces.progress_commits()
        is_new, before = commits > before, commits
        return is_new and bool(traces.waiting_progress())

    return Moment(reached, lambda: not traces.waiting_progress().isdisjoint(traces.appended_progress()))


def _starting(traces: Traces, rng: random.Random) -> Moment:
    """Some time after the start, and before any micro-batch is committed."""
    before, at_s = traces.committed(), time.monotonic() + rng.uniform(*_START_UP_S)
    return Moment(lambda: time.monotonic() >= at_s, lambda: traces.committed() == before)


def _at_random(traces: Traces, rng: random.Random) -> Moment:
    """Some time after the first micro-batch of this start is committed."""
    before, after_s = traces.committed(), rng.uniform(*_AT_RANDOM_S)
    since_s: float | None = None

    def reached() -> bool:
        nonlocal since_s
        if since_s is None and traces.committed() > before:
            since_s = time.monotonic()
        return since_s is not None and time.monotonic() >= since_s + after_s

    return Moment(reached, reached)


_MOMENTS: dict[Boundary, Callable[[Traces, random.Random], Moment]] = {
    Boundary.STARTING: _starting,
    Boundary.TIMER_BATCH: _timer_batch,
    Boundary.RAW_EVENTS_COMMITTED: _raw_events_committed,
    Boundary.MERGING: _merging,
    Boundary.PROGRESS_APPENDED: _progress_appended,
    Boundary.AT_RANDOM: _at_random,
}


def moment(boundary: Boundary, traces: Traces, rng: random.Random) -> Moment:
    """The next time that a boundary is reached."""
    if boundary in _MOMENTS:
        return _MOMENTS[boundary](traces, rng)
    return _at_stage(traces, Stage(boundary.value))
