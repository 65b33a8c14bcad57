"""The moments at which the job can be cut off, told by its files before the kill, and again after it."""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum

from tests.faults.traces import Stage, Traces

_START_UP_S = (0.5, 12)
_AT_RANDOM_S = (0, 5)
_WITHIN_TIMER_BATCH_S = (0, 0.6)


class Boundary(StrEnum):
    """A moment to be killed at."""

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
    """One start's wait for a boundary; made just before the start, so that only what this start does can reach it."""

    is_quiet = False
    """Whether input must not come meanwhile."""

    def __init__(self, traces: Traces, rng: random.Random) -> None:
        self.traces, self.rng = traces, rng

    @abstractmethod
    def reached(self) -> bool:
        """Whether the job is there now."""

    def left(self) -> bool:
        """Whether a job that was killed at once has left exactly this behind: SIGKILL comes a moment later."""
        return self.reached()


class _AtStage(Moment):
    """A micro-batch of `sessionize` has got so far; one that the last kill left there, has to get there anew."""

    def __init__(self, traces: Traces, rng: random.Random, stage: Stage) -> None:
        super().__init__(traces, rng)
        self._before, self._stage = traces.stage(), stage

    def reached(self) -> bool:
        now = self.traces.stage()
        return now[1] is self._stage and now != self._before


class _TimerBatch(Moment):
    """A micro-batch without input has been running for a random while; that timers were due in it, the oracle tells."""

    is_quiet = True

    def __init__(self, traces: Traces, rng: random.Random) -> None:
        super().__init__(traces, rng)
        self._begun_before, self._after_s = traces.begun(), rng.uniform(*_WITHIN_TIMER_BATCH_S)
        self._batch_id, self._since_s = -1, 0.0

    def reached(self) -> bool:
        batch_id = self.traces.begun()
        if batch_id > self._batch_id:
            self._batch_id, self._since_s = batch_id, time.monotonic()
        return self.left() and time.monotonic() >= self._since_s + self._after_s

    def left(self) -> bool:
        is_running = self.traces.committed() < self._batch_id and self._batch_id > self._begun_before
        return is_running and self.traces.takes_no_files(self._batch_id)


class _RawEventsCommitted(Moment):
    """`archive` has written messages, and is not done with their micro-batch."""

    def __init__(self, traces: Traces, rng: random.Random) -> None:
        super().__init__(traces, rng)
        self._before = traces.written("raw_events", "archive")

    def reached(self) -> bool:
        return self.traces.written("raw_events", "archive") > max(self._before, self.traces.committed("archive"))


class _Merging(Moment):
    """A MERGE has begun to write a file of `sessions`, and has not committed it."""

    def __init__(self, traces: Traces, rng: random.Random) -> None:
        super().__init__(traces, rng)
        self._before = traces.unnamed_files()

    def reached(self) -> bool:
        return bool(self.traces.unnamed_files() - self._before)


class _ProgressAppended(Moment):
    """Rows of `stream_progress` are in the table, and wait in the checkpoint still."""

    def __init__(self, traces: Traces, rng: random.Random) -> None:
        super().__init__(traces, rng)
        self._before = traces.progress_commits()

    def reached(self) -> bool:
        commits = self.traces.progress_commits()
        is_new, self._before = commits > self._before, commits
        return is_new and bool(self.traces.waiting_progress())

    def left(self) -> bool:
        return not self.traces.waiting_progress().isdisjoint(self.traces.appended_progress())


class _Starting(Moment):
    """Some time after the start, and before any micro-batch is done."""

    def __init__(self, traces: Traces, rng: random.Random) -> None:
        super().__init__(traces, rng)
        self._before, self._at_s = traces.committed(), time.monotonic() + rng.uniform(*_START_UP_S)

    def reached(self) -> bool:
        return time.monotonic() >= self._at_s

    def left(self) -> bool:
        return self.traces.committed() == self._before


class _AtRandom(Moment):
    """Some time after the first micro-batch of this start is done."""

    def __init__(self, traces: Traces, rng: random.Random) -> None:
        super().__init__(traces, rng)
        self._before, self._after_s = traces.committed(), rng.uniform(*_AT_RANDOM_S)
        self._since_s: float | None = None

    def reached(self) -> bool:
        if self._since_s is None and self.traces.committed() > self._before:
            self._since_s = time.monotonic()
        return self._since_s is not None and time.monotonic() >= self._since_s + self._after_s


_OTHERS: dict[Boundary, Callable[[Traces, random.Random], Moment]] = {
    Boundary.STARTING: _Starting,
    Boundary.TIMER_BATCH: _TimerBatch,
    Boundary.RAW_EVENTS_COMMITTED: _RawEventsCommitted,
    Boundary.MERGING: _Merging,
    Boundary.PROGRESS_APPENDED: _ProgressAppended,
    Boundary.AT_RANDOM: _AtRandom,
}


def moment(boundary: Boundary, traces: Traces, rng: random.Random) -> Moment:
    """The next time that a boundary is reached."""
    if boundary in _OTHERS:
        return _OTHERS[boundary](traces, rng)
    return _AtStage(traces, rng, Stage(boundary.value))
