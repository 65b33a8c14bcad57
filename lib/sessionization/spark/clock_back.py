"""A clock that was ahead and is put right: how the job notices, and what then wakes every grouping key.

While the clock is ahead, timers are set for instants that lie in the future once it is right. Spark calls the operator
only for keys with an event or a due timer, so such a key is silent until the clock has reached its timer. The job
therefore starts the query again, and hands the operator one row without an event for every key.
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from sessionization.clock import wall_clock_ms
from sessionization.errors import CheckpointError, StreamError
from sessionization.files import write_whole
from sessionization.say import Say
from sessionization.spark.causes import first_cause
from sessionization.spark.checkpoint import QUERIES, SESSIONIZE, Checkpoint
from sessionization.spark.offsets import begun, begun_batches, newest_begun
from sessionization.spark.progress import Progress
from sessionization.spark.supervise import wait_for_rest

_RATE_LOG_VERSION = "v1"


@dataclass(frozen=True, slots=True)
class Wake:
    """The grouping keys to call, and the tick whose row calls them.

    One tick is in one micro-batch, also when that is repeated.
    """

    tick: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SteppedBack:
    """By how much a clock went back, and the queries to start again."""

    by_ms: int
    queries: tuple[str, ...]


class ClockWatch:
    """Notices that the clock went back, by the clocks of micro-batches of `sessionize` and by the machine's own clocks.

    A micro-batch's clock is compared with the greatest one before it: so a restart finds what happened in between. The wall
    clock is compared with the monotonic one, because a running query waits for its next trigger by the wall clock: after a
    step back it does nothing until that has caught up.

    A clock that went back by no more than a heartbeat needs nothing: all timers are due within two heartbeats.
    """

    def __init__(
        self, newest_ms: int | None, heartbeat_ms: int, wall_minus_monotonic_ms: Callable[[], int] | None = None
    ) -> None:
        self._newest_ms = newest_ms
        self._wall_minus_monotonic_ms = wall_minus_monotonic_ms or _wall_minus_monotonic_ms
        self._difference_ms = self._wall_minus_monotonic_ms()
        self._heartbeat_ms = heartbeat_ms
        self._back_ms: int | None = None
        self._lock = threading.Lock()

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> "ClockWatch":
        """Start from the greatest clock in the checkpoint's offset log; raises `CheckpointError` if an entry is unreadable."""
        query = checkpoint.folder / SESSIONIZE
        clocks_ms = (begun(query, batch_id).clock_ms for batch_id in begun_batches(query))
        return cls(max(clocks_ms, default=None), checkpoint.in_force.rules.heartbeat_ms)

    def add(self, progress: Progress) -> None:
        """Take in the clock of a finished micro-batch; other queries are ignored. Thread-safe."""
        if progress.query != SESSIONIZE:
            return
        with self._lock:
            now_ms = progress.processed_ms
            newest_ms = now_ms if self._newest_ms is None else self._newest_ms
            if newest_ms - now_ms > self._heartbeat_ms:
                self._back_ms, self._newest_ms = newest_ms - now_ms, now_ms
            else:
                self._newest_ms = max(newest_ms, now_ms)

    def take(self) -> SteppedBack | None:
        """The step since the last call; None if there was none, or only a small one."""
        before_ms, self._difference_ms = self._difference_ms, self._wall_minus_monotonic_ms()
        stepped_ms = before_ms - self._difference_ms
        with self._lock:
            back_ms, self._back_ms = self._back_ms, None
            if stepped_ms > self._heartbeat_ms:
                self._newest_ms = None  # the micro-batches of now are compared with one another
                return SteppedBack(stepped_ms, QUERIES)
            return None if back_ms is None else SteppedBack(back_ms, (SESSIONIZE,))


def _wall_minus_monotonic_ms() -> int:
    return wall_clock_ms() - time.monotonic_ns() // 1_000_000


def restart_and_wake(
    spark: SparkSession,
    checkpoint: Checkpoint,
    queries: dict[str, StreamingQuery],
    start_again: Callable[[str, Wake | None], None],
    back: SteppedBack,
    stop: threading.Event,
    say: Say,
) -> None:
    """Restart queries after the clock went back; `sessionize` then calls every grouping key once.

    Does nothing if a query has ended, for `supervise.stop` reports why, or once `stop` is set: the next start of the job finds
    the greater clock in the offset log. Waits for the running micro-batch of each. Raises `StreamError`.
    """
    if not all(query.isActive for query in queries.values()):
        return
    names = ", ".join(back.queries)
    say(f"the clock went back by {back.by_ms // 1_000:,} s: {names} starts again, so that all sessions beat")
    try:
        for name in back.queries:
            wait_for_rest(queries[name], math.inf, stop)
            if stop.is_set():
                return
            queries[name].stop()
            start_again(name, wake_all(spark, checkpoint) if name == SESSIONIZE else None)
    except Py4JNetworkError:
        raise
    except (PySparkException, Py4JError, CheckpointError) as error:
        cause = first_cause(str(error))
        msg = (
            f"a query cannot be started again after the clock went back ({cause}): "
            "start the job again with the same options"
        )
        raise StreamError(msg) from error


def wake_all(spark: SparkSession, checkpoint: Checkpoint) -> Wake:
    """All grouping keys that have a timer, for a query that has stopped; raises `CheckpointError`."""
    query = checkpoint.folder / SESSIONIZE
    groups = checkpoint.layout.device_groups
    if groups is not None:
        return Wake(_next_tick(query), tuple(map(str, range(groups))))
    _ = spark.streams.active  # the state reader needs a part of the engine that only streaming starts
    stored = spark.read.format("statestore").options(path=str(query), readRegisteredTimers="true").load()
    keys = [row.grouping_key for row in stored.select("key.grouping_key").distinct().collect()]
    return Wake(_next_tick(query), tuple(sorted(keys)))


def move_tick_origin_back(query: Path, now_ms: int | None = None) -> None:
    """Move the tick source's start time back, if the clock went back so far that Spark would refuse to start the query.

    Spark counts them in seconds since its source first began. Under an earlier clock it would count fewer than were read,
    and refuse to start (`startSeconds > endSeconds`). Then the source's beginning is moved back.

    Raises `CheckpointError`.
    """
    tick = _next_tick(query)
    now_ms = wall_clock_ms() if now_ms is None else now_ms
    for file in query.glob("sources/*/0"):
        try:
            version, _, began = file.read_text(encoding="utf-8").partition("\n")
            if version != _RATE_LOG_VERSION or not began.strip().isdigit():
                continue
            if int(began) + tick * 1_000 > now_ms:
                # The checksum first: Spark reads a file without one, and refuses one that differs.
                file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
                write_whole(file, f"{version}\n{now_ms - (tick + 1) * 1_000}")
        except (OSError, UnicodeDecodeError) as error:
            msg = f"{file} cannot be put right after the clock went back ({error}): see to its permissions"
            raise CheckpointError(msg) from error


def _next_tick(query: Path) -> int:
    """The first tick that no micro-batch has read; the tick source is the only one whose offset is a plain integer."""
    newest = newest_begun(query)
    if newest < 0:
        return 0
    return max((source for source in begun(query, newest).sources if isinstance(source, int)), default=0)
