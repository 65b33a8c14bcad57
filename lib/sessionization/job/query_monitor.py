"""Watch the queries while they run, and print a progress line every few seconds."""

import threading
import time
from collections.abc import Callable

from pyspark.sql.streaming import StreamingQuery

from sessionization.clock import wall_clock_ms
from sessionization.job.totals import Totals
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
        if newest.detail.keeps_up is False:
            parts.append("DOES NOT KEEP UP")
    return ", ".join(parts)
