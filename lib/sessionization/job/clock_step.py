"""A clock that was ahead and is corrected: how the job notices it, and how it then wakes every grouping key.

While the clock is ahead, the operator sets timers for instants that lie in the future after the correction. Spark
calls the operator only for keys with an event or a due timer, so such a key is silent until the clock reaches its
timer. The job therefore restarts the query, and passes the operator one row without an event for every key.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.job.query_restart import explain_failed_restart, restart_query
from sessionization.spark.checkpoint.folder import QUERIES, SESSIONIZE, Checkpoint
from sessionization.spark.checkpoint.spark_logs import read_started_batch, started_batches
from sessionization.spark.input.ticks import WakeUp, next_tick
from sessionization.spark.job_context import JobContext
from sessionization.spark.output.progress import BatchProgress
from sessionization.spark.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class ClockStep:
    """A step back of the clock: its length, and the queries to restart."""

    by_ms: int
    queries: tuple[str, ...]


class ClockStepDetector:
    """Detects that the clock went back, from the clocks of `sessionize` micro-batches and from the machine's clocks.

    Compares a micro-batch's clock with the greatest earlier one, so a restart also finds a step while the job was
    stopped. Compares the wall clock with the monotonic clock, because a running query waits for its next trigger
    by the wall clock: after a step back it does nothing until that clock has caught up.

    Ignores a step of at most one heartbeat, because all timers are then due within two heartbeats.
    """

    def __init__(
        self, newest_ms: int | None, heartbeat_ms: int, wall_minus_monotonic_ms: Callable[[], int] | None = None
    ) -> None:
        self._newest_ms = newest_ms
        self._wall_minus_monotonic_ms = wall_minus_monotonic_ms or _wall_minus_monotonic_ms
        self._last_difference_ms = self._wall_minus_monotonic_ms()
        self._heartbeat_ms = heartbeat_ms
        self._batch_step_ms: int | None = None
        self._lock = threading.Lock()

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "ClockStepDetector":
        """Start from the greatest clock in the offset log; raises `CheckpointError` where an entry cannot be read."""
        query = checkpoint.folder / SESSIONIZE
        clocks_ms = (read_started_batch(query, batch_id).clock_ms for batch_id in started_batches(query))
        return cls(max(clocks_ms, default=None), checkpoint.in_force.rules.heartbeat_ms)

    def add(self, progress: BatchProgress) -> None:
        """Take in the clock of a finished micro-batch; other queries are ignored. Thread-safe."""
        if progress.query != SESSIONIZE:
            return
        with self._lock:
            now_ms = progress.processed_ms
            newest_ms = now_ms if self._newest_ms is None else self._newest_ms
            if newest_ms - now_ms > self._heartbeat_ms:
                self._batch_step_ms, self._newest_ms = newest_ms - now_ms, now_ms
            else:
                self._newest_ms = max(newest_ms, now_ms)

    def take(self) -> ClockStep | None:
        """The step since the last call; None if there was none, or only a small one."""
        previous_ms, self._last_difference_ms = self._last_difference_ms, self._wall_minus_monotonic_ms()
        machine_step_ms = previous_ms - self._last_difference_ms
        with self._lock:
            batch_step_ms, self._batch_step_ms = self._batch_step_ms, None
            if machine_step_ms > self._heartbeat_ms:
                self._newest_ms = None  # later micro-batches are compared only with one another
                return ClockStep(machine_step_ms, QUERIES)
            return None if batch_step_ms is None else ClockStep(batch_step_ms, (SESSIONIZE,))


def _wall_minus_monotonic_ms() -> int:
    return wall_clock_ms() - time.monotonic_ns() // 1_000_000


def restart_and_wake(context: JobContext, pipeline: Pipeline, step: ClockStep, stop: threading.Event) -> None:
    """Restart queries after the clock went back; `sessionize` then calls the operator once for every grouping key.

    Waits for the running micro-batch of each query. Does nothing if a query has ended, because `stop_queries`
    reports the cause. Also does nothing once `stop` is set, because the next start of the job finds the greater
    clock in the offset log. Raises `StreamError` where a query cannot be restarted.
    """
    if not all(query.isActive for query in pipeline.queries.values()):
        return
    names = ", ".join(step.queries)
    context.say(f"the clock went back by {step.by_ms // 1_000:,} s: {names} starts again, so that all sessions beat")
    wake = partial(wake_up_all_keys, context.spark, context.checkpoint)
    with explain_failed_restart("the clock went back"):
        for name in step.queries:
            if not restart_query(pipeline, name, stop, wake if name == SESSIONIZE else None):
                return


def wake_up_all_keys(spark: SparkSession, checkpoint: Checkpoint) -> WakeUp:
    """All grouping keys that have a timer, for a query that has stopped; raises `CheckpointError`."""
    query = checkpoint.folder / SESSIONIZE
    group_count = checkpoint.layout.device_groups
    if group_count is not None:
        return WakeUp(next_tick(query), tuple(map(str, range(group_count))))
    _ = spark.streams.active  # the state reader needs a part of the engine that only streaming starts
    stored = spark.read.format("statestore").options(path=str(query), readRegisteredTimers="true").load()
    keys = [row.grouping_key for row in stored.select("key.grouping_key").distinct().collect()]
    return WakeUp(next_tick(query), tuple(sorted(keys)))
