"""The options of the job predict_remaining."""

import subprocess
import sys
from pathlib import Path

import pytest

from sessionization.command_line.parser import read_settings
from sessionization.errors import ConfigurationError
from sessionization.ml.prediction_settings import PredictSettings

ROOT = Path(__file__).parents[2]


def test_the_registered_name_has_three_parts_in_a_catalog() -> None:
    in_catalog = read_settings(PredictSettings, ["--catalog", "games", "--schema", "prod"])
    assert in_catalog.registered_name == "games.prod.session_length"
    assert read_settings(PredictSettings, ["--warehouse", "t", "--model", "lengths"]).registered_name == "lengths"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--warehouse", "t", "--mlflow", "off"], "--mlflow off: the model is kept in MLflow"),
        (["--warehouse", "t", "--model", "a.b"], "--model"),
        (["--warehouse", "t", "--days", "0"], "--days '0' is too small"),
        ([], "the tables need one location"),
    ],
)
def test_a_wrong_option_is_named(arguments: list[str], expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        read_settings(PredictSettings, arguments)


def test_the_job_explains_itself_without_spark_and_mlflow() -> None:
    shown = subprocess.run(
        [sys.executable, ROOT / "jobs" / "predict_remaining.py", "--help"], capture_output=True, text=True, check=True
    )
    assert "--score-only" in shown.stdout
    assert "Forecast how long each live session will go on" in shown.stdout
