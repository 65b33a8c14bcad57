"""How late the rows of a run were, from what its micro-batches say of themselves."""

import math
from collections import Counter
from dataclasses import dataclass

from sessionization.spark.checkpoint.folder import SESSIONIZE
from sessionization.spark.output.progress import BatchProgress, DelaySample

_GROWTH = math.log(1.01)


@dataclass(frozen=True, slots=True)
class Delays:
    """p50 and p99 in milliseconds over a run; None where nothing was measured."""

    lateness_p50_ms: int | None = None
    lateness_p99_ms: int | None = None
    latency_p50_ms: int | None = None
    latency_p99_ms: int | None = None


class RunDelays:
    """Heartbeat lateness (due to commit) and event-to-table latency (ingest to commit) of the sessionize query.

    A percentile is exact to a quarter of a percent of the rows and to half a percent of its value: p99 is the delay of a row
    whose place is between p98.7 and p99.3. Micro-batches without a spread, as in real-time mode, are left out.
    """

    def __init__(self) -> None:
        self._lateness, self._latency = DelayHistogram(), DelayHistogram()

    def add(self, progress: BatchProgress) -> None:
        if progress.query == SESSIONIZE:
            self._lateness.add(progress.detail.lateness)
            self._latency.add(progress.detail.latency)

    def now(self) -> Delays:
        shares = 0.5, 0.99
        return Delays(*map(self._lateness.percentile, shares), *map(self._latency.percentile, shares))


class DelayHistogram:
    """Rows by delay, in buckets each 1 % wider than the one before: some thousand of them, however long the run."""

    def __init__(self) -> None:
        self._rows: Counter[int] = Counter()
        """By bucket, in parts of a row: `len(Spread.delays_ms)` to a whole one."""

    def add(self, spread: DelaySample | None) -> None:
        if spread is not None:
            for delay_ms in spread.delays_ms:
                self._rows[round(math.log1p(delay_ms) / _GROWTH)] += spread.rows

    def percentile(self, share: float) -> int | None:
        """The delay in milliseconds at the quantile `share` (0 to 1); None without rows."""
        wanted, so_far = share * self._rows.total(), 0
        for bucket, rows in sorted(self._rows.items()):
            so_far += rows
            if so_far >= wanted:
                return round(math.expm1(bucket * _GROWTH))
        return None
