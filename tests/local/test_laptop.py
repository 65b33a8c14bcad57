"""What a laptop has in place of a workspace: widgets, the folder of the tables, SQL, and the demo's live view."""

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from sessionization.errors import ConfigurationError
from sessionization.event_map.reading import PLAYSTATION, package_map
from sessionization.spark.engine import session
from sessionization.spark.engine.job_conf import TIME_ZONE_CONF
from sessionization.spark.tables.creation import fit_to_events
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES
from sessionization.spark.tables.views import create_views
from sessionization_laptop.demo import QUERIES, DemoView, answers
from sessionization_laptop.laptop_notebook import LaptopWidgets
from sessionization_laptop.notebook_folders import (
    WIDGETS_FILE,
    notebook_data_folder,
    notebook_tables_folder,
    write_widget_values,
)
from sessionization_laptop.print_query import as_table, print_query
from tests.support.warehouse import empty_tables, frame_of

ROOT = Path(__file__).parents[2]
RUNBOOK_SENTENCE = "No beat is missing or double where this has no row:"


def test_a_widget_has_its_first_default_and_a_given_value_wins() -> None:
    widgets = LaptopWidgets({"schema": "evening"})
    widgets.text("schema", "other")
    widgets.text("run-for", "1m", "how long")
    widgets.dropdown("run-for", "2m", ["2m"])
    assert (widgets.get("schema"), widgets.get("run-for")) == ("evening", "1m")


def test_a_widget_that_was_not_created_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="widget schema is not defined"):
        LaptopWidgets({"schema": "given, but never made"}).get("schema")


def test_the_notebooks_open_the_tables_of_the_demo_until_they_have_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "databricks.yml").touch()
    monkeypatch.delenv("SESSIONIZATION_NOTEBOOKS", raising=False)
    monkeypatch.chdir(tmp_path)
    demo, own = tmp_path / ".demo", tmp_path / ".notebooks"
    demo.mkdir()
    assert notebook_tables_folder() == own, "the demo has no tables yet"
    write_widget_values(demo, heartbeat="10s")
    assert (notebook_tables_folder(), notebook_data_folder()) == (demo, own)
    assert json.loads((demo / WIDGETS_FILE).read_text(encoding="utf-8"))["warehouse"] == str(demo / "warehouse")
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    assert notebook_tables_folder() == demo, "in whatever folder a kernel starts"
    own.mkdir()
    write_widget_values(own, heartbeat="5s")
    assert notebook_tables_folder() == own


@pytest.mark.spark
def test_the_live_view_answers_each_question_and_its_picture_loads_no_font(spark: SparkSession, tmp_path: Path) -> None:
    location, events = empty_tables(spark, TableLocation(tmp_path), owner="test"), package_map(PLAYSTATION)
    fit_to_events(spark, location, events, events.label_columns())
    create_views(spark, location)
    view = DemoView(answers=answers(spark, Console(width=80)))
    picture = view.picture()
    assert picture.startswith("<svg")
    assert all(question.split()[-1] in picture for question, _ in QUERIES)
    assert "font-face" not in picture


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Heartbeats of three sessions: one complete, one with a missing beat, one older than yesterday."""
    folder = tmp_path_factory.mktemp("query") / "warehouse"
    location = empty_tables(spark, TableLocation(folder), owner="test")
    now = datetime.now(UTC)
    beats = [(1, 1, 0, 30_000), (1, 2, 0, 60_000), (1, 4, 1, 120_000), (2, 2, 0, 60_000), (3, 5_000, 0, 172_800_000)]
    rows = [
        {
            "device_id": "pc-1", "session_id": number, "platform": "pc", "change": "heartbeat", "revision": 0,
            "beat": beat, "missed_beats": missed, "duration_ms": duration_ms, "started_at": now,
            "due_at": (at := now + timedelta(milliseconds=duration_ms % 86_400_000)),
            "processed_at": at, "change_date": at.date(),
        }
        for number, beat, missed, duration_ms in beats
    ]  # fmt: skip
    location.append(frame_of(spark, SESSION_CHANGES, rows), SESSION_CHANGES)
    return folder


@pytest.mark.spark
@pytest.mark.parametrize(("width", "lines"), [(80, 2 * 9 + 3), (200, 6)])
def test_rows_too_wide_for_the_terminal_are_shown_one_column_below_the_other(
    spark: SparkSession, width: int, lines: int
) -> None:
    names = [f"column_{number}" for number in range(9)]
    row = tuple(f"{name}-value" for name in names)
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(as_table(spark.createDataFrame([row, row], names), console))
    text = console.export_text()
    assert len(text.splitlines()) == lines
    assert all(text.count(f"{name}-value") == 2 for name in names)


@pytest.mark.spark
def test_times_are_utc_and_a_column_may_be_there_twice(
    spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(session, "spark_session", lambda _log, depends_on: asked.append(depends_on) or spark)
    print_query(warehouse, "SELECT TIMESTAMP '2026-11-21T12:00:00Z' AS at, 1 AS at, 2 AS last", rows=1)
    output = capsys.readouterr().out
    assert asked == [TIME_ZONE_CONF]
    assert "2026-11-21 12:00:00" in output
    assert [name.strip() for name in output.splitlines()[1].strip("┃").split("┃")] == ["at", "at", "last"]


@pytest.mark.spark
def test_the_runbook_query_finds_the_session_with_a_missing_beat(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    sql = text.split(RUNBOOK_SENTENCE)[1].split("```sql")[1].split("```")[0]
    print_query(warehouse, sql, rows=100)
    [row] = [line for line in capsys.readouterr().out.splitlines() if "pc-1" in line]
    assert [cell.strip() for cell in row.strip("│").split("│")] == ["pc-1", "2", "2", "1"]
