"""How long a query rests after a micro-batch, and how many entries its state has."""

import threading
import time
from types import SimpleNamespace

import pytest

from sessionization.durations import DurationRange
from sessionization.spark.output import query_pace
from sessionization.spark.output.query_pace import QueryPace
from sessionization.spark.output.state_entries import GroupEntryCounts

DEADLINE_S = 10


def rests(
    monkeypatch: pytest.MonkeyPatch, *took_s: float, every: str = "2-60", newest_age_s: float = 0
) -> list[float | None]:
    """The rest after each of the micro-batches that took so long; None where the query did not rest."""
    shortest, longest = (1_000 * int(seconds) for seconds in every.split("-"))
    tested, waited, clock = QueryPace(DurationRange(shortest, longest), 0.2), [], [0.0]
    monkeypatch.setattr(query_pace, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(tested, "_is_over", SimpleNamespace(wait=waited.append))
    result: list[float | None] = []
    for seconds in took_s:
        began_s, clock[0] = clock[0], clock[0] + seconds
        waited.clear()
        tested.rest(began_s, newest_age_s)
        result.append(waited[0] if waited else None)
    return result


@pytest.mark.parametrize(
    ("took_s", "expected_s"),
    [
        ((16, 3), (0, 12)),  # the first micro-batch, cold, does not count
        ((3, 3, 3), (0, 12, 12)),
        ((3, 30, 3), (0, 0, 12)),  # one slow micro-batch does not either
        ((3, 30, 30), (0, 0, 30)),  # the longest time between two
        ((0.1, 0.1), (1.9, 1.9)),  # the shortest
    ],
)
def test_a_query_takes_its_share_of_the_time_within_the_range(
    monkeypatch: pytest.MonkeyPatch, took_s: tuple[float, ...], expected_s: tuple[float, ...]
) -> None:
    assert rests(monkeypatch, *took_s) == pytest.approx(expected_s)


@pytest.mark.parametrize(
    ("every", "newest_age_s", "expected_s"),
    [
        ("2-60", 60, [0, 12]),
        ("2-60", 60.1, [None, None]),
        ("2-20", 30.1, [None, None]),
    ],
)
def test_a_query_with_a_backlog_does_not_rest(
    monkeypatch: pytest.MonkeyPatch, every: str, newest_age_s: float, expected_s: list[float | None]
) -> None:
    assert rests(monkeypatch, 3, 3, every=every, newest_age_s=newest_age_s) == expected_s


def test_the_end_wakes_a_query_that_rests_and_later_ones() -> None:
    tested = QueryPace(DurationRange(60_000, 60_000), 0.2)
    thread = threading.Thread(target=tested.rest, args=(time.monotonic(), 0))
    thread.start()
    tested.end()
    thread.join(DEADLINE_S)
    assert not thread.is_alive()
    began_s = time.monotonic()
    tested.rest(began_s, 0)
    assert time.monotonic() - began_s < DEADLINE_S


def test_entries_are_the_sum_of_each_groups_newest_count() -> None:
    entries = GroupEntryCounts(1_000)
    assert entries.after(0, [("0", 5)]) is None
    assert entries.after(1_000, [("1", 7)]) is None
    assert entries.after(1_001, []) == 12
    assert entries.after(2_000, [("0", 0)]) == 7
