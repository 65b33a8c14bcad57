"""A run says when its heartbeats are late for long, what to do, and when they are in time again."""

from pathlib import Path

import pytest

from sessionization.job.query_monitor import progress_line
from sessionization.job.totals import RunningTotals
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.pinned_settings import explain_ignored_devices
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.output.keeping_up import KeepingUp
from sessionization.spark.output.progress import BatchDetail, BatchProgress, Percentiles
from tests.unit.monitored import NONE

LATE, IN_TIME, WITHOUT = 30_001, 30_000, None


def batch(p99_ms: int | None, *, keeps_up: bool) -> BatchProgress:
    lateness = Percentiles(1, p99_ms, p99_ms) if p99_ms else NONE
    return BatchProgress("sessionize", 1, 0, 0, 5, NONE, lateness, detail=BatchDetail(keeps_up=keeps_up))


def told(layout: StateLayout, *p99s_ms: int | None) -> tuple[list[bool], list[str]]:
    said: list[str] = []
    keeping_up = KeepingUp(30_000, layout, said.append)
    return [keeping_up.judge(p99_ms) for p99_ms in p99s_ms], said


@pytest.mark.parametrize(
    ("p99s_ms", "keeps_up", "lines"),
    [
        ([LATE, LATE, IN_TIME, LATE, LATE], [True] * 5, 0),
        ([LATE, LATE, LATE, LATE], [True, True, False, False], 1),
        ([LATE, WITHOUT, LATE, WITHOUT, LATE], [True, True, True, True, False], 1),
        ([LATE] * 3 + [IN_TIME, IN_TIME, LATE, IN_TIME, IN_TIME, IN_TIME], [True] * 2 + [False] * 6 + [True], 2),
    ],
)
def test_three_in_a_row_decide(p99s_ms: list[int | None], keeps_up: list[bool], lines: int) -> None:
    found, said = told(StateLayout(), *p99s_ms)
    assert (found, len(said)) == (keeps_up, lines)


def test_what_to_do_depends_on_the_layout() -> None:
    _, [by_device] = told(StateLayout(), LATE, LATE, LATE)
    _, [grouped] = told(StateLayout(32), LATE, LATE, LATE)
    assert "30,001 ms" in by_device
    assert "--expected-devices N --from-sessions" in by_device
    assert "--expected-devices" not in grouped
    assert "more cores" in grouped


def test_the_progress_line_says_so_until_it_is_over() -> None:
    keeping_up, totals = KeepingUp(30_000, StateLayout(), lambda _: None), RunningTotals()
    for p99_ms, is_said in [
        (LATE, False),
        (LATE, False),
        (LATE, True),
        (IN_TIME, True),
        (IN_TIME, True),
        (IN_TIME, False),
    ]:
        totals.add(batch(p99_ms, keeps_up=keeping_up.judge(p99_ms)))
        assert progress_line(*totals.now()).endswith("DOES NOT KEEP UP") is is_said


@pytest.mark.parametrize(
    ("devices", "layout", "says"),
    [
        (100_000, StateLayout(), "keeps its state by device, not in 32 device groups"),
        (100, StateLayout(32), "keeps its state in 32 device groups, not by device"),
        (100_000, StateLayout(32), None),
        (None, StateLayout(32), None),
    ],
)
def test_expected_devices_that_a_checkpoint_ignores_are_named(
    devices: int | None, layout: StateLayout, says: str | None
) -> None:
    places = {"input": Path("in"), "warehouse": Path("w"), "checkpoints": Path("c")}
    line = explain_ignored_devices(SessionizeSettings(**places, expected_devices=devices), Path("c"), layout)
    assert line is None if says is None else line is not None and says in line and "--from-sessions" in line
