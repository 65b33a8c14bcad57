"""A trained model of session lengths: a Weibull regression, and the plain survival curve that it must beat.

It is small and needs no Spark to forecast: a few coefficients and a curve, which JSON holds exactly.
"""

import json
from dataclasses import asdict, dataclass
from typing import Final, Literal, Self

import numpy as np
import numpy.typing as npt

from sessionization.ml.survival import Numbers, SurvivalCurve, weibull_remaining_s

Source = Literal["model", "baseline"]
PROBABILITIES: Final = (0.1, 0.5, 0.9)
"""The quantiles of the remaining time that are forecast; between the outer ones lies 80 %."""


@dataclass(frozen=True, slots=True)
class LengthModel:
    """The logarithm of a session's length is `intercept` plus coefficients times features, plus `sigma` times an error.

    The error follows the extreme value law of a minimum, so the length follows Weibull's (Wei 1992).

    Attributes:
        intercept: in log seconds.
        coefficients: by feature, in the order of `session_features.FEATURES`; log seconds per unit of the feature.
        sigma: above 0.
        baseline: the Kaplan-Meier curve of all sessions, the same for every session.
        beats_baseline: whether the model was better on the days that it had not seen. If not, the baseline forecasts.
        trained_until_ms: the model knows nothing that happened later; UTC milliseconds.
    """

    intercept: float
    coefficients: dict[str, float]
    sigma: float
    baseline: SurvivalCurve
    beats_baseline: bool
    trained_until_ms: int

    @property
    def source(self) -> Source:
        """Which of the two forecasts."""
        return "model" if self.beats_baseline else "baseline"

    def remaining_s(
        self, features: Numbers, age_s: npt.ArrayLike, probability: float, source: Source | None = None
    ) -> Numbers:
        """A quantile of the remaining time, in seconds, shape (n,).

        Args:
            features: shape (n, number of features).
            age_s: shape (n,), or one age for all.
            probability: of the quantile.
            source: which of the two forecasts; without it, the better one.
        """
        if (source or self.source) == "baseline":
            return self.baseline.remaining_s(np.broadcast_to(np.asarray(age_s, float), len(features)), probability)
        log_scale = self.intercept + features @ np.array(list(self.coefficients.values()))
        return weibull_remaining_s(log_scale, self.sigma, age_s, probability)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote; raises `ValueError`, `TypeError` or `KeyError` for another text."""
        fields = json.loads(text)
        curve = fields.pop("baseline")
        baseline = SurvivalCurve(tuple(curve["times_s"]), tuple(curve["survival"]))
        return cls(baseline=baseline, **fields)
