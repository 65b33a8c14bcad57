"""Charts of forecasts: the title states the finding, every axis has a unit."""

import numpy as np
import pytest
from pyspark.sql import SparkSession

pytest.importorskip("matplotlib", reason="Matplotlib is not installed: make notebooks installs it")

from sessionization.ml.evaluation import TestSessions, evaluate
from sessionization.ml.length_model import LengthModel
from sessionization.ml.session_features import FEATURES
from sessionization.ml.survival import SurvivalCurve
from sessionization.ml.training import Training
from sessionization.notebook import length_charts
from sessionization.spark.tables.schemas import SESSION_PREDICTIONS

HOUR_MS = 3_600_000


def trained(weight: float) -> Training:
    """A model whose first feature tells the length exactly, as far as it has a weight."""
    rng = np.random.default_rng(1)
    features = np.zeros((400, len(FEATURES)))
    features[:, 0] = rng.normal(7, 1, 400)
    length_s = np.ceil(np.exp(features[:, 0]))
    curve = SurvivalCurve.of(np.sort(length_s), 1 - np.arange(1, 401) / 400)
    coefficients = dict.fromkeys(FEATURES, 0.0) | {FEATURES[0]: weight}
    model = LengthModel(7 * (1 - weight), coefficients, 0.3, curve, False, 0)
    found = evaluate(model, TestSessions(features, length_s, np.full(400, True), np.arange(400).astype(object)))
    return Training(model, found, 0, 23 * HOUR_MS, 24 * HOUR_MS, 1_000, 900, 400, 3)


@pytest.mark.parametrize(
    ("weight", "expected"),
    [(1.0, "The model beats the survival curve: its loss is "), (0.0, "The model does not beat the survival curve: ")],
)
def test_the_title_states_the_finding_and_every_axis_its_unit(weight: float, expected: str) -> None:
    figure = length_charts.model_against_baseline(trained(weight))
    above, below = figure.axes
    assert above.get_title(loc="left").startswith(expected)
    assert above.get_title(loc="left").endswith("(last 60 min)")
    assert len(above.patches) == 2 * 4, "a bar per source and age"
    units = [text for axes in (above, below) for text in (axes.get_xlabel(), axes.get_ylabel())]
    assert [text[text.rindex("(") :] for text in units] == ["(minutes)", "(minutes)", "(%)", "(%)"]


@pytest.mark.spark
def test_live_sessions_are_drawn_by_their_median_and_none_is_said_so(spark: SparkSession) -> None:
    empty = spark.createDataFrame([], SESSION_PREDICTIONS.schema)
    (axes,) = length_charts.live_forecasts(empty).axes
    assert [text.get_text() for text in axes.texts] == ["no session is live"]
    rows = [("pc", 0, 60_000 * low, 120_000 * low, 240_000 * low) for low in range(1, 101)]
    columns = "platform string, age_ms long, remaining_p10_ms long, remaining_p50_ms long, remaining_p90_ms long"
    (axes,) = length_charts.live_forecasts(spark.createDataFrame(rows, columns)).axes
    assert axes.get_title(loc="left") == "Half of the 100 live sessions have a p50 of less than 102 min to go"
    assert len(axes.lines) == 2 * 40 + 2
