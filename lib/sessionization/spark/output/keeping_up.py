"""Whether heartbeats come in time, and what to do when they do not."""

from sessionization.durations import format_duration
from sessionization.say import Say
from sessionization.spark.checkpoint.state_layout import StateLayout

_IN_A_ROW = 3


class KeepingUp:
    """Judges the micro-batches of a run. Prints when heartbeats begin to be late, and when they are in time again.

    A micro-batch is late when the p99 of its heartbeats' lateness is above one heartbeat interval. Three late ones in a row
    mean that the job does not keep up, until three in a row are in time. Micro-batches without heartbeats do not count. Used
    by the thread of one query.
    """

    def __init__(self, heartbeat_ms: int, layout: StateLayout, say: Say) -> None:
        self._heartbeat_ms, self._layout, self._say = heartbeat_ms, layout, say
        self._keeps_up = True
        self._in_a_row_against = 0
        """Micro-batches in a row that contradict `_keeps_up`."""

    def judge(self, lateness_p99_ms: int | None) -> bool:
        """Count a micro-batch of sessionize, None for one without heartbeats. Returns whether the job keeps up."""
        if lateness_p99_ms is not None:
            self._count(lateness_p99_ms)
        return self._keeps_up

    def _count(self, p99_ms: int) -> None:
        is_in_time = p99_ms <= self._heartbeat_ms
        self._in_a_row_against = 0 if is_in_time == self._keeps_up else self._in_a_row_against + 1
        if self._in_a_row_against < _IN_A_ROW:
            return
        self._keeps_up, self._in_a_row_against = is_in_time, 0
        if is_in_time:
            self._say("heartbeats are in time again: the job keeps up")
        else:
            self._say(
                f"heartbeats are late by p99 {p99_ms:,} ms, more than one interval of {format_duration(self._heartbeat_ms)}, "
                f"in {_IN_A_ROW} micro-batches in a row: the job does not keep up; if this stays, {advice_for(self._layout)}"
            )


def advice_for(layout: StateLayout) -> str:
    """What to do with a checkpoint of this layout when the job does not keep up."""
    if layout.device_groups is None:
        return "begin a new --checkpoints folder with --expected-devices N --from-sessions: this one keeps its state by device"
    return "give the job more cores and state partitions (jobs/rescale_state.py), or a longer --heartbeat"
