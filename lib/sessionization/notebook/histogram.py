"""Histograms that Spark counts: the notebook receives a few dozen numbers, for any number of rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_BINS = 30


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of values between neighbouring `edges`, one sequence per kind; without rows all fields are empty."""

    edges: Sequence[float] = ()
    counts: Mapping[str, Sequence[int]] = field(default_factory=dict)
    median: float | None = None
    """An approximate median of all values."""

    @property
    def total(self) -> int:
        return sum(map(sum, self.counts.values()))


def histogram(rows: DataFrame) -> Histogram:
    """Count `value` in bins of equal width, separately for each `kind`; null values are not counted.

    Args:
        rows: `value` (a number) and `kind` (text).
    """
    values = rows.where("value IS NOT NULL").select(F.col("value").cast("double").alias("value"), "kind")
    bounds = values.agg(
        F.min("value").alias("lowest"),
        F.max("value").alias("highest"),
        F.percentile_approx("value", 0.5).alias("median"),
    ).first()
    if bounds is None or bounds.lowest is None:
        return Histogram()
    lowest, width = bounds.lowest, (bounds.highest - bounds.lowest) / _BINS or 1.0
    # Without the cap the highest value would fall into an extra bin.
    bin_number = F.least(F.floor((F.col("value") - lowest) / width), F.lit(_BINS - 1)).cast("int")
    counted = values.groupBy("kind", bin_number.alias("bin")).count().collect()
    counts = {row.kind: [0] * _BINS for row in counted}
    for row in counted:
        counts[row.kind][row.bin] = row["count"]
    return Histogram([lowest + index * width for index in range(_BINS + 1)], counts, bounds.median)


def draw(axes: Axes, counted: Histogram, colours: Mapping[str, str]) -> None:
    """Draw stacked bars, one colour per kind in the order of `colours`; add a legend if there are several kinds."""
    kinds = [kind for kind in colours if kind in counted.counts]
    lefts = list(counted.edges[:-1])
    axes.hist(
        [lefts] * len(kinds),
        bins=list(counted.edges),
        weights=[list(counted.counts[kind]) for kind in kinds],
        stacked=True,
        color=[colours[kind] for kind in kinds],
        label=[kind.replace("_", " ") for kind in kinds],
    )
    if len(kinds) > 1:
        axes.legend(frameon=False)
