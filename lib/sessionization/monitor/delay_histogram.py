"""Histograms of delays, with the same bounds in every process: they can be added up over time and processes."""

import math

from sessionization.spark.output.progress import DelaySample

BOUNDS_S = (0.1, 0.25, 0.5, 1, 1.5, 2, 3, 5, 7.5, 10, 20, 30, 60, 120, 300, 900, 3600)
"""Upper bounds in seconds. 30 and 60 are limits of alerts."""


class DelayHistogram:
    """Rows by delay. It is given samples, so a count is exact to half a percent of each sample's rows."""

    def __init__(self) -> None:
        self.at_most = [0] * (len(BOUNDS_S) + 1)
        """How many rows have at most each bound of `BOUNDS_S`, and last how many there are."""
        self.sum_s = 0.0
        """All delays together, in seconds."""

    def add(self, sample: DelaySample) -> None:
        """Count a sample's rows. With at most as many rows as the sample has delays, the counts are exact."""
        delays_ms, rows = sample.delays_ms, sample.rows
        for place, bound_s in enumerate((*BOUNDS_S, math.inf)):
            delays = sum(delay_ms <= bound_s * 1000 for delay_ms in delays_ms)
            self.at_most[place] += round(rows * delays / len(delays_ms))
        self.sum_s += sum(delays_ms) / len(delays_ms) * rows / 1000
