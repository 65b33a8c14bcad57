"""The moments at which the job can be cut off, recognised by its files before the kill and again after it."""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
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


class Moment(ABC):
    """Waits for a boundary; created just before a start, so that only the work of this start can reach it."""

    is_quiet = False
    """True if no input may come meanwhile."""

    def __init__(self, traces: Traces, rng: random.Random) -> None:
        self.traces, self.rng = traces, rng

    @abstractmethod
    def reached(self) -> bool:
        """Whether the job is at the boundary now."""

    def is_exact(self) -> bool:
        """Whether the files of the killed job still show exactly this boundary: SIGKILL comes a moment later."""
        return self.reached()


class _AtStage(Moment):
    """A micro-batch of `sessionize` has reached a stage; one that the last kill left there must reach it again."""

    def __init__(self, traces: Traces, rng: random.Random, stage: Stage) -> None:
        super().__init__(traces, rng)
        self._before, self._stage = traces.stage(), stage

    def reached(self) -> bool:
        now = self.traces.stage()
        return now[1] is self._stage and now != self._before


class _TimerBatch(Moment):
    """A micro-batch without input has run for a random time; the oracle shows whether timers were due in it."""

    is_quiet = True

    def __init__(self, traces: Traces, rng: random.Random) -> None:
        super().__init__(traces, rng)
        self._started_before, self._after_s = traces.started(), rng.uniform(*_WITHIN_TIMER_BATCH_S)
        self._batch_id, self._since_s = -1, 0.0

    def reached(self) -> bool:
        batch_id = self.traces.started()
        if batch_id > self._batch_id:
            self._batch_id, self._since_s = batch_id, time.monotonic()
        return self.is_exact() and time.monotonic() >= self._since_s + self._after_s

    def is_exact(self) -> bool:
        is_running = self.traces.committed() < self._batch_id and self._batch_id > self._started_before
        return is_running and self.traces.takes_no_files(self._batch_id)


class _RawEventsCommitted(Moment):
    """`archive` has written messages, and has not committed their micro-batch."""

    def __init__(self, traces: Traces, rng: random.Random) -> None:
        super().__init__(traces, rng)
        self._before = traces.written("raw_events", "archive")

    def reached(self) -> bool:
        return self.traces.written("raw_events", "archive") > max(self._before, self.traces.committed("archive"))


class _Merging(Moment):
    """A MERGE has started to write a file of `sessions`, and has not committed it."""

    def __init__(self, traces: Traces, rng: random.Random) -> None:
        super().__init__(traces, rng)
        self._before = traces.unnamed_files()

    def reached(self) -> bool:
        return bool(self.traces.unnamed_files() - self._before)


class _ProgressAppended(Moment):
    """Rows of `stream_progress` are in the table, and are still stored in the checkpoint."""

    def __init__(self, traces: Traces, rng: random.Random) -> None:
        super().__init__(traces, rng)
        self._before = traces.progress_commits()

    def reached(self) -> bool:
        commits = self.traces.progress_commits()
        is_new, self._before = commits > self._before, commits
        return is_new and bool(self.traces.waiting_progress())

    def is_exact(self) -> bool:
        return not self.traces.waiting_progress().isdisjoint(self.traces.appended_progress())


class _Starting(Moment):
    """Some time after the start, and before any micro-batch is committed."""

    def __init__(self, traces: Traces, rng: random.Random) -> None:
        super().__init__(traces, rng)
        self._before, self._at_s = traces.committed(), time.monotonic() + rng.uniform(*_START_UP_S)

    def reached(self) -> bool:
        return time.monotonic() >= self._at_s

    def is_exact(self) -> bool:
        return self.traces.committed() == self._before


class _AtRandom(Moment):
    """Some time after the first micro-batch of this start is committed."""

    def __init__(self, traces: Traces, rng: random.Random) -> None:
        super().__init__(traces, rng)
        self._before, self._after_s = traces.committed(), rng.uniform(*_AT_RANDOM_S)
        self._since_s: float | None = None

    def reached(self) -> bool:
        if self._since_s is None and self.traces.committed() > self._before:
            self._since_s = time.monotonic()
        return self._since_s is not None and time.monotonic() >= self._since_s + self._after_s


_MOMENTS: dict[Boundary, Callable[[Traces, random.Random], Moment]] = {
    Boundary.STARTING: _Starting,
    Boundary.TIMER_BATCH: _TimerBatch,
    Boundary.RAW_EVENTS_COMMITTED: _RawEventsCommitted,
    Boundary.MERGING: _Merging,
    Boundary.PROGRESS_APPENDED: _ProgressAppended,
    Boundary.AT_RANDOM: _AtRandom,
}


def moment(boundary: Boundary, traces: Traces, rng: random.Random) -> Moment:
    """The next time that a boundary is reached."""
    if boundary in _MOMENTS:
        return _MOMENTS[boundary](traces, rng)
    return _AtStage(traces, rng, Stage(boundary.value))
