"""Watch the queries while they run, and print a progress line every few seconds."""

import threading
import time
from collections.abc import Callable

from pyspark.sql.streaming import StreamingQuery

from sessionization.clock import wall_clock_ms
from sessionization.job.summary import Totals
from sessionization.say import Say
from sessionization.spark.checkpoint.folder import SESSIONIZE
from sessionization.spark.output.progress import BatchProgress

_REPORT_EVERY_S = 5


def monitor_queries(
    queries: dict[str, StreamingQuery],
    stop: threading.Event,
    check: Callable[[], None],
    report: Callable[[], None],
) -> None:
    """Wait until `stop` is set or a query has ended.

    Args:
        queries: by name.
        stop: ends the wait.
        check: called five times a second; it may replace a query in `queries`.
        report: called every few seconds.
    """
    next_report_s = time.monotonic() + _REPORT_EVERY_S
    while all(query.isActive for query in queries.values()):
        now_s = time.monotonic()
        if now_s >= next_report_s:
            report()
            next_report_s = now_s + _REPORT_EVERY_S
        if stop.wait(0.2):
            return
        check()


class ClockCheck:
    """Says once that the machine's clock went back, by more than a heartbeat, behind that of the newest micro-batch.

    Says it again for the next step. Spark starts no micro-batch of a running query until the clock has caught up. The
    job loses nothing, so it only says so (docs/session-rules.md, "A clock that was ahead").
    """

    def __init__(self, heartbeat_ms: int, say: Say) -> None:
        self._heartbeat_ms, self._say = heartbeat_ms, say
        self._is_behind = False

    def check(self, newest_ms: int | None) -> None:
        """Compare the clock with that of the newest micro-batch of `sessionize`, None before the first."""
        if newest_ms is None:
            return
        behind_ms = newest_ms - wall_clock_ms()
        was_behind, self._is_behind = self._is_behind, behind_ms > self._heartbeat_ms
        if self._is_behind and not was_behind:
            self._say(
                f"the clock went back by {behind_ms // 1_000:,} s: heartbeats may be silent for that long, nothing is "
                "lost; if the clock went back after this start, restart the job: it takes no messages for that long"
            )


def progress_line(totals: Totals, last: dict[str, BatchProgress]) -> str:
    """The progress line of a running job: its totals, and its newest micro-batch (`last`, by query)."""
    newest = last.get(SESSIONIZE)
    parts = [
        f"{totals.events:,} events in",
        f"{totals.started:,} started",
        f"{totals.heartbeats:,} heartbeats",
        f"{totals.ended:,} ended",
        f"{totals.repeated:,} repeated",
        f"{totals.quarantined:,} quarantined",
    ]
    if newest is not None:
        age_s = max(0, wall_clock_ms() - newest.processed_ms - newest.batch_ms) // 1000
        parts.append(f"micro-batch {newest.batch_id} took {newest.batch_ms:,} ms, {age_s:,} s ago")
        if newest.lateness.p99_ms is not None:
            parts.append(f"heartbeats late by p99 {newest.lateness.p99_ms:,} ms")
    return ", ".join(parts)
