"""Judges whether heartbeats come in time, and advises when they do not."""

from collections.abc import Callable

from sessionization.durations import format_duration
from sessionization.say import Say
from sessionization.spark.checkpoint.state_layout import MIN_GROUPED_DEVICES, StateLayout

_BATCHES_IN_A_ROW = 3
_MOST_PARTITIONS_PER_CORE = 3


class KeepingUp:
    """Judges the micro-batches of a run. Prints when heartbeats begin to be late, and when they are in time again.

    A micro-batch is late when the p99 of its heartbeats' lateness exceeds one heartbeat interval. After three late
    ones in a row the job does not keep up, until three in a row are in time. Micro-batches without heartbeats do
    not count. Only the thread of one query uses an instance.
    """

    def __init__(
        self,
        heartbeat_ms: int,
        layout: StateLayout,
        say: Say,
        partitions: int = 1,
        cores: Callable[[], int | None] = lambda: None,
    ) -> None:
        """`cores` returns how many the engine has now, if that is known: a cluster's come one after the other."""
        self._heartbeat_ms, self._layout, self._say = heartbeat_ms, layout, say
        self._partitions, self._cores = partitions, cores
        self._keeps_up = True
        self._contradictions = 0
        """How many micro-batches in a row have contradicted `_keeps_up`."""

    def judge(self, lateness_p99_ms: int | None) -> bool:
        """Count a micro-batch of sessionize, None for one without heartbeats. Returns whether the job keeps up."""
        if lateness_p99_ms is not None:
            self._count(lateness_p99_ms)
        return self._keeps_up

    def _count(self, p99_ms: int) -> None:
        is_in_time = p99_ms <= self._heartbeat_ms
        self._contradictions = 0 if is_in_time == self._keeps_up else self._contradictions + 1
        if self._contradictions < _BATCHES_IN_A_ROW:
            return
        self._keeps_up, self._contradictions = is_in_time, 0
        if is_in_time:
            self._say("heartbeats are in time again: the job keeps up")
        else:
            self._say(
                f"heartbeats are late by p99 {p99_ms:,} ms, more than one interval of "
                f"{format_duration(self._heartbeat_ms)}, in {_BATCHES_IN_A_ROW} micro-batches in a row: "
                f"the job does not keep up; if this stays, {advice_for(self._layout, self._partitions, self._cores())}"
            )


def advice_for(layout: StateLayout, partitions: int, cores: int | None) -> str:
    """Advice for a job that does not keep up, by the layout of its checkpoint and the partitions of its state.

    Each partition costs every micro-batch a task and a commit, whatever it holds.
    """
    if cores and partitions > _MOST_PARTITIONS_PER_CORE * cores:
        return (
            f"stop it, and give its state {cores} partitions, one per core, in place of {partitions} "
            f"(jobs/rescale_state.py --partitions {cores})"
        )
    if layout.device_groups is None:
        return (
            f"with {MIN_GROUPED_DEVICES:,} devices or more begin a new --checkpoints folder with --expected-devices N "
            "--from-sessions, for this one keeps its state by device; with fewer end what else uses the cores, or give "
            "more of them, or a longer --heartbeat"
        )
    return "give the job more cores and state partitions (jobs/rescale_state.py), or a longer --heartbeat"
