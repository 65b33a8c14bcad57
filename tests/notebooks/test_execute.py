"""Every notebook, run from the first cell to the last: no error, every picture shows something, every table has rows."""

import io
from concurrent.futures import Future
from pathlib import Path

import pytest

pytest.importorskip("nbclient", reason="nbclient is not installed: make notebooks installs it")

from tests.notebooks.headless import NOTEBOOKS, Executed, execute

# How many pictures and tables a notebook shows; of a picture that updates, the last.
SHOWN = {
    "01_tour": (2, 0),
    "02_sessionize": (1, 0),
    "03_query_sessions": (6, 6),
    "04_inspect_state": (5, 3),
    "05_compare_runs": (2, 1),
}


def assert_shows(executed: Executed, name: str) -> None:
    pictures, tables = executed.pictures(), executed.tables()
    assert (len(pictures), len(tables)) == SHOWN[name]
    for picture in pictures:
        assert colours(picture) > 3, "a picture shows axes and nothing in them"
    for table in tables:
        assert "<tbody><tr>" in table, f"a table has no rows: {table[:200]}"


def colours(picture: bytes) -> int:
    """How many colours there are beside black, white and greys: without any, nothing is drawn."""
    from PIL import Image

    image = Image.open(io.BytesIO(picture)).convert("RGB")
    found = image.quantize(64).convert("RGB").getcolors(1 << 20) or []
    return sum(count for count, (red, green, blue) in found if max(red, green, blue) - min(red, green, blue) > 40)


def test_every_notebook_is_run_here() -> None:
    assert sorted(SHOWN) == NOTEBOOKS


# First, and asked for last: it is begun here, and waits while the others run.
def test_the_tour_begins(tour: Future[Executed]) -> None:
    assert not tour.cancelled()


def test_the_job_shows_a_chart_to_a_person_and_stops(demo: Path) -> None:
    executed = execute("02_sessionize", demo, {"run-for": "10s", "heartbeat": "2s", "mlflow": "off"})
    assert_shows(executed, "02_sessionize")
    assert "live now" in executed.text(), "the summary"


def test_questions_have_answers(demo: Path) -> None:
    assert_shows(execute("03_query_sessions", demo, {}), "03_query_sessions")


def test_the_state_is_seen(demo: Path) -> None:
    assert_shows(execute("04_inspect_state", demo, {}), "04_inspect_state")


def test_runs_are_compared(demo: Path) -> None:
    executed = execute("05_compare_runs", demo, {"stores": f"sqlite:///{demo / 'mlflow.db'}"})
    pictures, tables = executed.pictures(), executed.tables()
    assert (len(pictures), len(tables)) == SHOWN["05_compare_runs"]
    assert colours(pictures[0]) > 3
    assert tables[0].count("<tr>") == 1 + 2, "two runs"
    assert "heartbeat=" in tables[0], "what the runs differ in"


def test_the_tour_comes_to_the_same_twice(tour: Future[Executed]) -> None:
    executed = tour.result()
    assert_shows(executed, "01_tour")
    (ends,) = executed.results()
    assert "('pc-2', 2, 'reported')" in ends
