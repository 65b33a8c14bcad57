"""The lateness and latency of a run, from the delay samples of its micro-batches."""

import math
from collections import Counter
from dataclasses import dataclass

from sessionization.spark.checkpoint.folder import SESSIONIZE
from sessionization.spark.output.progress import BatchProgress, DelaySample

_LOG_BUCKET_RATIO = math.log(1.01)


@dataclass(frozen=True, slots=True)
class Delays:
    """p50 and p99 in milliseconds over a run; None where nothing was measured."""

    lateness_p50_ms: int | None = None
    lateness_p99_ms: int | None = None
    latency_p50_ms: int | None = None
    latency_p99_ms: int | None = None


class RunDelays:
    """Heartbeat lateness (due to commit) and event-to-table latency (ingest to commit) of the sessionize query.

    A percentile is exact to a quarter of a percent of the rows and to half a percent of its value: p99 is the
    delay of a row between p98.7 and p99.3. Micro-batches without samples, as in real-time mode, are ignored.
    """

    def __init__(self) -> None:
        self._lateness, self._latency = DelayHistogram(), DelayHistogram()

    def add(self, progress: BatchProgress) -> None:
        if progress.query == SESSIONIZE:
            self._lateness.add(progress.detail.lateness)
            self._latency.add(progress.detail.latency)

    def percentiles(self) -> Delays:
        shares = 0.5, 0.99
        return Delays(*map(self._lateness.percentile, shares), *map(self._latency.percentile, shares))


class DelayHistogram:
    """Rows by delay, in buckets each 1 % wider than the previous one: about a thousand, however long the run."""

    def __init__(self) -> None:
        self._rows: Counter[int] = Counter()
        """Counts by bucket, in fractions of a row: `len(DelaySample.delays_ms)` make one row."""

    def add(self, sample: DelaySample | None) -> None:
        if sample is not None:
            for delay_ms in sample.delays_ms:
                self._rows[round(math.log1p(delay_ms) / _LOG_BUCKET_RATIO)] += sample.rows

    def percentile(self, share: float) -> int | None:
        """The delay in milliseconds at the quantile `share` (0 to 1); None without rows."""
        target, so_far = share * self._rows.total(), 0
        for bucket, rows in sorted(self._rows.items()):
            so_far += rows
            if so_far >= target:
                return round(math.expm1(bucket * _LOG_BUCKET_RATIO))
        return None
