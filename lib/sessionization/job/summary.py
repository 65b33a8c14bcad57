"""What a run has done so far, added up from the micro-batches of its queries, in lines for a person."""

import threading
from collections import Counter

from sessionization.clock import wall_clock_ms
from sessionization.say import Say
from sessionization.spark.checkpoint.folder import ARCHIVE, SESSIONIZE
from sessionization.spark.output.progress import BatchProgress

_COUNTS = ("quarantined", "skipped", "started", "heartbeats", "ended", "duplicate_start", "duplicate_end")


class RunningTotals:
    """Rows since the run began, named as in `stream_progress`; the queries' threads add, and the main thread reads.

    `messages` counts the input of the archive query, `events` that of sessionize, `repeated` both kinds of repeats.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals = Counter[str]()
        self._last: dict[str, BatchProgress] = {}

    def add(self, progress: BatchProgress) -> None:
        with self._lock:
            self._last[progress.query] = progress
            self._totals.update({name: getattr(progress, name) or 0 for name in _COUNTS})
            self._totals["repeated"] = self._totals["duplicate_start"] + self._totals["duplicate_end"]
            if progress.query in (ARCHIVE, SESSIONIZE):
                self._totals["messages" if progress.query == ARCHIVE else "events"] += progress.rows_in

    def snapshot(self) -> tuple[Counter[str], dict[str, BatchProgress]]:
        """The totals, and each query's newest micro-batch."""
        with self._lock:
            return self._totals.copy(), dict(self._last)


def progress_line(totals: Counter[str], last: dict[str, BatchProgress]) -> str:
    """The progress line of a running job: its totals, and its newest micro-batch (`last`, by query)."""
    newest = last.get(SESSIONIZE)
    parts = [
        f"{totals['events']:,} events in",
        *(f"{totals[name]:,} {name}" for name in ("started", "heartbeats", "ended", "repeated", "quarantined")),
    ]
    if totals["skipped"]:
        parts.append(f"{totals['skipped']:,} skipped")
    if newest is not None:
        age_s = max(0, wall_clock_ms() - newest.processed_ms - newest.batch_ms) // 1000
        parts.append(f"micro-batch {newest.batch_id} took {newest.batch_ms:,} ms, {age_s:,} s ago")
        if newest.lateness.p99_ms is not None:
            parts.append(f"heartbeats late by p99 {newest.lateness.p99_ms:,} ms")
    return ", ".join(parts)


def summary_lines(seconds: float, totals: Counter[str], live: int | None) -> list[str]:
    """The summary of a run; `live` is None where the live sessions could not be counted.

    Two queries read the messages, so one may have read more than the other.
    """
    skipped = f", skipped {totals['skipped']:,}" if totals["skipped"] else ""
    return [
        f"ran {seconds:,.0f} s",
        f"archived         {totals['messages']:,} messages, of which quarantined {totals['quarantined']:,}{skipped}",
        f"sessionized      {totals['events']:,} events, of which repeated {totals['repeated']:,}"
        f" ({totals['duplicate_start']:,} Starts, {totals['duplicate_end']:,} Ends)",
        f"changes out      {totals['started']:,} started, {totals['heartbeats']:,} heartbeats,"
        f" {totals['ended']:,} ended (corrections included)",
        f"live now         {'-' if live is None else f'{live:,}'}",
    ]


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
