"""The demo's questions and its live view."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.views import create_views
from sessionization_laptop.demo import QUERIES, DemoView, answers
from tests.support.warehouse import empty_tables

pytestmark = pytest.mark.spark


def test_the_live_view_answers_each_question_and_its_picture_loads_no_font(spark: SparkSession, tmp_path: Path) -> None:
    create_views(spark, empty_tables(spark, TableLocation(tmp_path), owner="test"))
    view = DemoView(answers=answers(spark, Console(width=80)))
    picture = view.picture()
    assert picture.startswith("<svg")
    assert all(question.split()[-1] in picture for question, _ in QUERIES)
    assert "font-face" not in picture
