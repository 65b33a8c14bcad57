"""Compare the model's forecasts with the baseline's, on sessions that neither of them has seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sessionization.ml.length_model import PROBABILITIES, LengthModel, Source
from sessionization.ml.survival import Numbers, gain_and_error, observation_weights, pinball_loss, weighted_mean

LEVELS = tuple(level / 10 for level in range(1, 10))
"""The quantiles of the calibration."""
SOURCES: tuple[Source, Source] = ("model", "baseline")
_STANDARD_ERRORS = 2.0
"""The gain must be this many standard errors above 0, so that chance makes no champion."""
_S_IN_MINUTE = 60
_LOW, _MEDIAN, _HIGH = PROBABILITIES


@dataclass(frozen=True, slots=True)
class TestSessions:
    """Sessions to forecast; each array has one entry per session.

    Attributes:
        features: shape (n, number of features).
        length_s: whole seconds; for a session that has not ended, its age.
        has_ended: whether the length is the final one.
        player: the account or the device; sessions of one player are not independent.
    """

    __test__ = False  # no class of tests

    features: Numbers
    length_s: Numbers
    has_ended: npt.NDArray[np.bool_]
    player: npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Score:
    """How good the forecasts of one source are at one age, or at all ages (`age_s` is None).

    Attributes:
        sessions: how many sessions that ended were forecast; at all ages, each once per age.
        pinball_min: by probability the mean pinball loss in minutes.
        coverage: the share of sessions that ended between the forecast p10 and p90; 0.8 is right.
    """

    source: Source
    age_s: int | None
    sessions: int
    pinball_min: dict[float, float]
    coverage: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The comparison of the two.

    Attributes:
        scores: of each source, at each age and at all ages.
        calibration: by source, for each of `LEVELS` the share of sessions that ended before the forecast quantile.
        gain_min: by how many minutes the model's p50 loss is below the baseline's, in the mean.
        gain_error_min: the standard error of that, by player.
    """

    scores: tuple[Score, ...]
    calibration: dict[Source, tuple[float, ...]]
    gain_min: float
    gain_error_min: float

    @property
    def beats_baseline(self) -> bool:
        """Whether the model's p50 loss is lower by more than two standard errors."""
        return self.gain_min > _STANDARD_ERRORS * self.gain_error_min

    def score(self, source: Source, age_s: int | None = None) -> Score:
        return next(score for score in self.scores if (score.source, score.age_s) == (source, age_s))

    def verdict(self) -> str:
        """One line: both losses, the difference with its error, and the decision."""
        model, baseline = (self.score(source).pinball_min[_MEDIAN] for source in SOURCES)
        share, error = (minutes / (baseline or 1.0) for minutes in (self.gain_min, 2 * self.gain_error_min))
        decision = "beats" if self.beats_baseline else "does not beat"
        return (
            f"the model {decision} the baseline: p50 loss {model:.2f} min against {baseline:.2f} min, "
            f"{abs(share):.1%} {'lower' if share > 0 else 'higher'} (+-{error:.1%})"
        )


def ages_to_judge(model: LengthModel) -> tuple[int, ...]:
    """Ages in seconds: the start, and when a quarter, half and three quarters of all sessions are over."""
    quarters = (int(model.baseline.remaining_s(0.0, share)) for share in (0.25, 0.5, 0.75))
    return tuple(dict.fromkeys((0, *quarters)))


def evaluate(model: LengthModel, sessions: TestSessions) -> Evaluation:
    """Forecast the remaining time of each session at each age that it reached, with both sources.

    Sessions that have not ended count by the weights of those that have (`survival.observation_weights`).

    Raises `ValueError` without sessions that ended.
    """
    weights = observation_weights(sessions.length_s, sessions.has_ended)
    ages = ages_to_judge(model)
    at_age = [(age, np.flatnonzero((sessions.length_s > age) & sessions.has_ended)) for age in ages]
    at_age = [(age, rows) for age, rows in at_age if len(rows)]
    if not at_age:
        msg = "no session ended, so there is nothing to judge"
        raise ValueError(msg)
    age_s = np.concatenate([np.full(len(rows), float(age)) for age, rows in at_age])
    rows = np.concatenate([rows for _, rows in at_age])
    actual_min = (sessions.length_s[rows] - age_s) / _S_IN_MINUTE
    forecasts = {
        source: {
            level: model.remaining_s(sessions.features[rows], age_s, level, source) / _S_IN_MINUTE
            for level in sorted({*PROBABILITIES, *LEVELS})
        }
        for source in SOURCES
    }
    scores = [
        _score(source, age, actual_min, forecasts[source], np.where(_is_at(age, age_s), weights[rows], 0.0))
        for source in SOURCES
        for age in (None, *(age for age, _ in at_age))
    ]
    losses = {source: pinball_loss(actual_min, forecasts[source][_MEDIAN], _MEDIAN) for source in SOURCES}
    gain, error = gain_and_error(losses["baseline"] - losses["model"], weights[rows], sessions.player[rows])
    calibration = {
        source: tuple(weighted_mean(actual_min <= forecasts[source][level], weights[rows]) for level in LEVELS)
        for source in SOURCES
    }
    return Evaluation(tuple(scores), calibration, gain, error)


def _is_at(age: int | None, age_s: Numbers) -> npt.NDArray[np.bool_]:
    return np.full(len(age_s), True) if age is None else age_s == age


def _score(
    source: Source, age: int | None, actual_min: Numbers, forecast: dict[float, Numbers], weights: Numbers
) -> Score:
    loss = {p: weighted_mean(pinball_loss(actual_min, forecast[p], p), weights) for p in PROBABILITIES}
    is_within = (forecast[_LOW] <= actual_min) & (actual_min <= forecast[_HIGH])
    return Score(source, age, int(np.count_nonzero(weights)), loss, weighted_mean(is_within, weights))


def comparison_rows(evaluation: Evaluation) -> Sequence[tuple[str, str, int, float, float, float, float]]:
    """A row per source and age: source, age, sessions, pinball loss at p10, p50 and p90 in minutes, coverage."""
    return [
        (
            score.source,
            "all" if score.age_s is None else f"{score.age_s / _S_IN_MINUTE:.1f} min",
            score.sessions,
            round(score.pinball_min[_LOW], 3),
            round(score.pinball_min[_MEDIAN], 3),
            round(score.pinball_min[_HIGH], 3),
            round(score.coverage, 3),
        )
        for score in evaluation.scores
    ]
