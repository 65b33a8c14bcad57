"""A run reports when its heartbeats stay late, what to do, and when they are on time again."""

import pytest

from sessionization.job.query_monitor import progress_line
from sessionization.job.totals import RunningTotals
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.output.keeping_up import KeepingUp
from sessionization.spark.output.progress import BatchDetail, BatchProgress, Percentiles
from tests.support.monitored import NO_PERCENTILES

LATE, IN_TIME, NO_HEARTBEATS = 30_001, 30_000, None


def progress(p99_ms: int | None, *, keeps_up: bool) -> BatchProgress:
    lateness = Percentiles(1, p99_ms, p99_ms) if p99_ms else NO_PERCENTILES
    return BatchProgress("sessionize", 1, 0, 0, 5, NO_PERCENTILES, lateness, detail=BatchDetail(keeps_up=keeps_up))


def judge_all(layout: StateLayout, *p99s_ms: int | None) -> tuple[list[bool], list[str]]:
    printed: list[str] = []
    keeping_up = KeepingUp(30_000, layout, printed.append)
    return [keeping_up.judge(p99_ms) for p99_ms in p99s_ms], printed


@pytest.mark.parametrize(
    ("p99s_ms", "keeps_up", "line_count"),
    [
        ([LATE, LATE, IN_TIME, LATE, LATE], [True] * 5, 0),
        ([LATE, LATE, LATE, LATE], [True, True, False, False], 1),
        ([LATE, NO_HEARTBEATS, LATE, NO_HEARTBEATS, LATE], [True, True, True, True, False], 1),
        ([LATE] * 3 + [IN_TIME, IN_TIME, LATE, IN_TIME, IN_TIME, IN_TIME], [True] * 2 + [False] * 6 + [True], 2),
    ],
)
def test_three_micro_batches_in_a_row_decide_whether_the_stream_keeps_up(
    p99s_ms: list[int | None], keeps_up: list[bool], line_count: int
) -> None:
    found, printed = judge_all(StateLayout(), *p99s_ms)
    assert (found, len(printed)) == (keeps_up, line_count)


def test_the_advice_depends_on_the_layout() -> None:
    _, [by_device] = judge_all(StateLayout(), LATE, LATE, LATE)
    _, [grouped] = judge_all(StateLayout(32), LATE, LATE, LATE)
    assert "30,001 ms" in by_device
    assert "--expected-devices N --from-sessions" in by_device
    assert "with 2,000 devices or more" in by_device
    assert "--expected-devices" not in grouped
    assert "more cores" in grouped


@pytest.mark.parametrize(
    ("partitions", "cores", "expected"),
    [
        (64, 2, "give its state 2 partitions, one per core, in place of 64 (jobs/rescale_state.py --partitions 2)"),
        (4, 1, "give its state 1 partitions, one per core, in place of 4 (jobs/rescale_state.py --partitions 1)"),
        (6, 2, "more cores and state partitions"),
        (64, None, "more cores and state partitions"),
    ],
)
def test_the_advice_names_rescale_state_for_far_more_partitions_than_cores(
    partitions: int, cores: int | None, expected: str
) -> None:
    printed: list[str] = []
    keeping_up = KeepingUp(30_000, StateLayout(32), printed.append, partitions, lambda: cores)
    for _ in range(3):
        keeping_up.judge(LATE)
    assert len(printed) == 1
    assert expected in printed[0]


def test_the_progress_line_warns_until_the_stream_keeps_up_again() -> None:
    keeping_up, totals = KeepingUp(30_000, StateLayout(), lambda _: None), RunningTotals()
    for p99_ms, warns in [
        (LATE, False),
        (LATE, False),
        (LATE, True),
        (IN_TIME, True),
        (IN_TIME, True),
        (IN_TIME, False),
    ]:
        totals.add(progress(p99_ms, keeps_up=keeping_up.judge(p99_ms)))
        assert progress_line(*totals.snapshot()).endswith("DOES NOT KEEP UP") is warns
