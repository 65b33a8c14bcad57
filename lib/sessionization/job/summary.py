"""What a run has done so far, added up from the micro-batches of its queries, and its summary when it has stopped."""

import math
import threading
from collections import Counter
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from sessionization.spark.checkpoint.folder import ARCHIVE, SESSIONIZE
from sessionization.spark.output.progress import BatchProgress, DelaySample, Percentiles
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSIONS

_COUNTS = ("quarantined", "started", "heartbeats", "ended", "duplicate_start", "duplicate_end")
_LOG_BUCKET_RATIO = math.log(1.01)


@dataclass(slots=True)
class Totals:
    """Rows since the run began, named as in `stream_progress`; `messages` counts the input of the archive query."""

    messages: int = 0
    quarantined: int = 0
    events: int = 0
    started: int = 0
    heartbeats: int = 0
    ended: int = 0
    duplicate_start: int = 0
    duplicate_end: int = 0

    @property
    def repeated(self) -> int:
        return self.duplicate_start + self.duplicate_end


class DelayHistogram:
    """Rows by delay, in buckets each 1 % wider than the previous one: about a thousand, however long the run.

    A percentile is exact to a quarter of a percent of the rows and to half a percent of its value: p99 is the
    delay of a row between p98.7 and p99.3.
    """

    def __init__(self) -> None:
        self._rows: Counter[int] = Counter()
        """Counts by bucket, in fractions of a row: `len(DelaySample.delays_ms)` make one row."""

    def add(self, sample: DelaySample | None) -> None:
        """Count a micro-batch's rows; without a sample, as in real-time mode, nothing."""
        if sample is not None:
            for delay_ms in sample.delays_ms:
                self._rows[round(math.log1p(delay_ms) / _LOG_BUCKET_RATIO)] += sample.rows

    def percentiles(self) -> Percentiles:
        return Percentiles(*map(self._percentile, (0.5, 0.99, 1.0)))

    def _percentile(self, share: float) -> int | None:
        target, so_far = share * self._rows.total(), 0
        for bucket, rows in sorted(self._rows.items()):
            so_far += rows
            if so_far >= target:
                return round(math.expm1(bucket * _LOG_BUCKET_RATIO))
        return None


class RunningTotals:
    """Totals to which the queries' threads add, and which the main thread reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals = Totals()
        self._last: dict[str, BatchProgress] = {}
        self.lateness, self.latency = DelayHistogram(), DelayHistogram()
        """Of heartbeats from due to commit, and of rows that an event caused from ingest to commit."""

    def add(self, progress: BatchProgress) -> None:
        with self._lock:
            self._last[progress.query] = progress
            for name in _COUNTS:
                setattr(self._totals, name, getattr(self._totals, name) + (getattr(progress, name) or 0))
            if progress.query == ARCHIVE:
                self._totals.messages += progress.rows_in
            if progress.query == SESSIONIZE:
                self._totals.events += progress.rows_in
                self.lateness.add(progress.detail.lateness)
                self.latency.add(progress.detail.latency)

    def snapshot(self) -> tuple[Totals, dict[str, BatchProgress]]:
        """The totals, and each query's newest micro-batch."""
        with self._lock:
            return replace(self._totals), dict(self._last)


@dataclass(frozen=True, slots=True)
class Summary:
    """Duration, totals and delays of a run; `live` is None where the live sessions could not be counted."""

    seconds: float
    totals: Totals
    live: int | None
    lateness: Percentiles
    latency: Percentiles


def summary_lines(summary: Summary) -> list[str]:
    """The summary as lines for a person. Two queries read the messages, so one may have read more than the other."""
    totals, lateness, latency = summary.totals, summary.lateness, summary.latency
    return [
        f"ran {summary.seconds:,.0f} s",
        f"archived         {totals.messages:,} messages, of which quarantined {totals.quarantined:,}",
        f"sessionized      {totals.events:,} events, of which repeated {totals.repeated:,}"
        f" ({totals.duplicate_start:,} Starts, {totals.duplicate_end:,} Ends)",
        f"changes out      {totals.started:,} started, {totals.heartbeats:,} heartbeats, {totals.ended:,} ended"
        " (corrections included)",
        f"live now         {_number(summary.live)}",
        f"heartbeat lateness      p50 {_number(lateness.p50_ms, ' ms')}, p99 {_number(lateness.p99_ms, ' ms')}",
        f"event-to-table latency  p50 {_number(latency.p50_ms, ' ms')}, p99 {_number(latency.p99_ms, ' ms')}"
        " (the start included)",
    ]


def _number(value: int | None, unit: str = "") -> str:
    return "-" if value is None else f"{value:,}{unit}"


def count_live_sessions(spark: SparkSession, location: TableLocation) -> int:
    """Count the sessions that the table `sessions` shows as live."""
    return location.read(spark.read, SESSIONS).where("status = 'live'").count()
