"""Every notebook, run from the first cell to the last: no error, every picture shows something, every table has rows."""

from pathlib import Path

import pytest

pytest.importorskip("nbclient", reason="nbclient is not installed: make notebooks installs it")

from tests.notebooks.headless import NOTEBOOKS, SHOWN, Executed, beside_the_code
from tests.notebooks.seen import coloured_pixels


def assert_shows(executed: Executed, name: str) -> None:
    assert executed.errors() == []
    pictures, tables = executed.pictures(), executed.tables()
    assert (len(pictures), len(tables)) == SHOWN[name]
    for picture in pictures:
        assert coloured_pixels(picture) > 50, "a picture shows axes and nothing in them"
    for table in tables:
        assert "<tbody><tr>" in table, f"a table has no rows: {table[:200]}"


def test_every_notebook_is_run_here() -> None:
    assert sorted(SHOWN) == NOTEBOOKS


def test_the_job_shows_a_chart_to_a_person_and_stops(executed: dict[str, Executed]) -> None:
    assert_shows(executed["02_sessionize"], "02_sessionize")
    assert "live now" in executed["02_sessionize"].text(), "the summary"


@pytest.mark.parametrize("name", ["03_query_sessions", "04_inspect_state"])
def test_questions_have_answers(executed: dict[str, Executed], name: str) -> None:
    assert_shows(executed[name], name)


def test_runs_are_compared(executed: dict[str, Executed]) -> None:
    compared = executed["05_compare_runs"]
    pictures, tables = compared.pictures(), compared.tables()
    assert (compared.errors(), len(pictures), len(tables)) == ([], *SHOWN["05_compare_runs"])
    assert coloured_pixels(pictures[0]) > 50
    assert tables[0].count("<tr>") == 1 + 3, "two runs of the demo, and one of the notebook"
    assert "heartbeat=" in tables[0], "what the runs differ in"


def test_the_tour_comes_to_the_same_twice(executed: dict[str, Executed]) -> None:
    tour = executed["01_tour"]
    assert_shows(tour, "01_tour")
    (ends,) = tour.results()
    assert "('pc-2', 2, 'reported')" in ends


def test_notebooks_leave_nothing_beside_the_code(executed: dict[str, Executed], before: set[Path]) -> None:
    assert executed
    assert beside_the_code() - before == set()
