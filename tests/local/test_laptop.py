"""What a laptop has in place of a workspace: widgets, the folder of the tables, and the demo's live view."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from sessionization.errors import ConfigurationError
from sessionization.event_map.reading import PLAYSTATION, package_map
from sessionization.spark.tables.creation import fit_to_events
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.views import create_views
from sessionization_laptop.demo import QUERIES, answers
from sessionization_laptop.demo_evening import DemoView
from sessionization_laptop.laptop_notebook import LaptopWidgets
from sessionization_laptop.notebook_folders import (
    WIDGETS_FILE,
    notebook_data_folder,
    notebook_tables_folder,
    write_widget_values,
)
from tests.support.warehouse import empty_tables


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
