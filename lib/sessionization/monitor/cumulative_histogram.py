"""Histograms of durations, with the same buckets in every process: they can be added up over time and processes."""

from itertools import accumulate

from sessionization.spark.output.progress import DelaySample

BOUNDS_S = (0.1, 0.25, 0.5, 1, 1.5, 2, 3, 5, 7.5, 10, 20, 30, 60, 120, 300, 900, 3600)
"""Upper bounds of the buckets in seconds; a last bucket has no bound. 30 and 60 are limits of alerts."""


class Histogram:
    """Rows by duration. It is given samples, so a bucket is exact to half a percent of each sample's rows."""

    def __init__(self) -> None:
        self._rows = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0
        """All durations together, in seconds."""

    def add(self, sample: DelaySample) -> None:
        """Count a sample's rows. With at most as many rows as the sample has delays, the counts are exact."""
        delays_ms, rows = sample.delays_ms, sample.rows
        at_most = [sum(delay_ms <= bound_s * 1000 for delay_ms in delays_ms) for bound_s in BOUNDS_S]
        up_to = [round(rows * delays / len(delays_ms)) for delays in (*at_most, len(delays_ms))]
        for bucket, (below, here) in enumerate(zip([0, *up_to], up_to, strict=False)):
            self._rows[bucket] += here - below
        self.sum_s += sum(delays_ms) / len(delays_ms) * rows / 1000

    def cumulative(self) -> list[int]:
        """How many rows have at most each bound of `BOUNDS_S`, and last how many there are."""
        return list(accumulate(self._rows))

    def copy(self) -> "Histogram":
        twin = Histogram()
        twin._rows, twin.sum_s = list(self._rows), self.sum_s
        return twin
