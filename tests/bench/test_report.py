"""A benchmark's report is computed from the measured results."""

import pytest

from tests.bench.report import ratios, tables
from tests.bench.scenario import Delays, Result, Scenario

YARDSTICK = Scenario("beats", "jvm", 1_000)
GROUPS = Scenario("beats", "4", 1_000)


def rounds(*per_s: int | None) -> dict[int, Result]:
    """Returns a result per round; None marks a round that failed."""
    return {number: result(rate) for number, rate in enumerate(per_s) if rate is not None}


def result(per_s: int) -> Result:
    return Result(seconds=10, ticks_ms=[900, 1_100], heartbeats=per_s * 10, cpu_s={"jvm": 8, "python": 4})


@pytest.mark.parametrize(
    ("weighted", "expected"),
    [
        ([], None),
        ([(5, 0)], None),
        ([(7, 1)], Delays(7, 7, 7)),
        ([(30, 1), (10, 98), (20, 1)], Delays(10, 20, 30)),
        ([(10, 50), (20, 50)], Delays(10, 20, 20)),
    ],
    ids=["nothing", "no rows", "one", "by weight", "half is enough"],
)
def test_delays_are_percentiles_of_the_rows(weighted: list[tuple[int, int]], expected: Delays | None):
    assert Delays.of(weighted) == expected


def test_a_table_has_the_median_and_the_spread_and_no_column_without_figures():
    head, _, row, _ = tables({(GROUPS, "here"): rounds(120, 90, 100)})
    assert "heartbeats/s" in head
    assert "lateness" not in head
    assert row.startswith("| beats, 1,000 live, 4 groups, noop | ")
    assert "| 100 (90 to 120) |" in row


def test_layouts_are_compared_with_the_yardstick_of_the_same_round():
    results = {(YARDSTICK, "here"): rounds(100, None, 50), (GROUPS, "here"): rounds(200, 500, 150)}
    (line,) = ratios(results)
    assert line == "- beats, 1,000 live, 4 groups, noop: 2.50 (2.00 to 3.00) x the yardstick (heartbeats/s)"


def test_two_sides_are_compared_with_one_another():
    results = {(GROUPS, "abc"): rounds(100), (GROUPS, "here"): rounds(150)}
    assert list(ratios(results)) == ["- beats, 1,000 live, 4 groups, noop, here: 1.50 x abc (heartbeats/s)"]
