"""A run's totals and percentiles are close to those of all its rows, however its micro-batches differ."""

import random

import pytest

from sessionization.job.summary import DelayHistogram, RunningTotals, Totals
from sessionization.spark.output.progress import SAMPLE_SIZE, DelaySample, Percentiles
from tests.support.monitored import query_progress, sessionize_progress


def sample_of(delays_ms: list[int]) -> DelaySample:
    """Returns the sample that the sink's aggregate estimates, computed exactly."""
    ordered = sorted(delays_ms)
    positions = (int((point + 0.5) / SAMPLE_SIZE * len(ordered)) for point in range(SAMPLE_SIZE))
    return DelaySample(len(ordered), tuple(ordered[position] for position in positions))


def test_the_micro_batches_of_a_run_add_up() -> None:
    run = RunningTotals()
    assert run.lateness.percentiles() == Percentiles(None, None, None)
    for progress in (sessionize_progress(0), sessionize_progress(1), query_progress("archive", quarantined=2)):
        run.add(progress)
    totals, last = run.snapshot()
    assert totals == Totals(8, 2, 14, 6, 10, 8, 2, 0)
    assert (totals.repeated, last["sessionize"].batch_id) == (2, 1)


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_are_within_the_stated_error(seed: int) -> None:
    rng = random.Random(seed)
    histogram, rows = DelayHistogram(), []
    for _ in range(50):
        size, median_ms = rng.choice([1, 3, 200, 5_000]), rng.choice([50, 800, 20_000, 3_000_000])
        batch = [round(median_ms * rng.lognormvariate(0, 0.5)) for _ in range(size)]
        histogram.add(sample_of(batch))
        rows += batch
    rows.sort()
    found = histogram.percentiles()
    for share, found_ms in ((0.5, found.p50_ms), (0.99, found.p99_ms)):
        assert found_ms is not None
        low, high = (rows[min(len(rows) - 1, int((share + offset) * len(rows)))] for offset in (-0.004, 0.004))
        assert low * 0.994 - 1 <= found_ms <= high * 1.006 + 1


def test_a_large_micro_batch_outweighs_a_small_one() -> None:
    histogram = DelayHistogram()
    histogram.add(sample_of([10_000]))
    histogram.add(sample_of([100] * 1_000))
    assert histogram.percentiles().p99_ms == pytest.approx(100, rel=0.01)
    assert histogram.percentiles().max_ms == pytest.approx(10_000, rel=0.01)
