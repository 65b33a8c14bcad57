"""How long sessions last, as plain arithmetic: Weibull quantiles, the Kaplan-Meier curve, and the loss of a forecast.

Lengths and ages are in seconds, probabilities between 0 and 1. The remaining time of a session is its length minus its
age, given that it has lasted longer than that.

Sources: Kaplan and Meier (1958), "Nonparametric estimation from incomplete observations", JASA 53; Wei (1992), "The
accelerated failure time model", Statistics in Medicine 11; Koenker and Bassett (1978), "Regression quantiles",
Econometrica 46; Graf et al. (1999), "Assessment and comparison of prognostic classification schemes for survival
data", Statistics in Medicine 18.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]

_LEAST_SHARE_OBSERVED = 0.05


def weibull_remaining_s(log_scale: Numbers, sigma: float, age_s: npt.ArrayLike, probability: float) -> Numbers:
    """The `probability` quantile of the remaining time under a Weibull law.

    A session is longer than t with probability exp(-(t / scale) ** (1 / sigma)). So the session that has lasted `a` is
    over by `scale * ((a / scale) ** (1 / sigma) - log(1 - p)) ** sigma` with probability p.

    Args:
        log_scale: shape (n,), the logarithm of each session's scale in seconds: what the regression gives (Wei 1992).
        sigma: the scale of the logarithm's error; 1 / sigma is Weibull's shape.
        age_s: how long each session has lasted, shape (n,) or one number.
        probability: below 1.

    Returns:
        Seconds, shape (n,), never negative.
    """
    scale_s = np.exp(log_scale)
    age = np.asarray(age_s, np.float64)
    hazard_so_far = (age / scale_s) ** (1 / sigma)
    return np.maximum(scale_s * (hazard_so_far - math.log1p(-probability)) ** sigma - age, 0.0)


@dataclass(frozen=True, slots=True)
class SurvivalCurve:
    """A curve that falls in steps: from `times_s[i]` on, the share `survival[i]` of the sessions goes on.

    Before the first time the share is 1. Times rise, shares fall.
    """

    times_s: tuple[float, ...]
    survival: tuple[float, ...]

    @classmethod
    def of(cls, times_s: npt.ArrayLike, survival: npt.ArrayLike) -> Self:
        return cls(tuple(np.asarray(times_s, float).tolist()), tuple(np.asarray(survival, float).tolist()))

    def at(self, times_s: npt.ArrayLike) -> Numbers:
        """The share of sessions that last longer than each time."""
        position = np.searchsorted(self.times_s, np.asarray(times_s, np.float64), "right")
        return np.concatenate([[1.0], self.survival])[position]

    def remaining_s(self, age_s: npt.ArrayLike, probability: float) -> Numbers:
        """The `probability` quantile of the remaining time, given each age; shape as `age_s`.

        Where the curve does not fall so far, its last time counts: no session is known that lasted longer.
        """
        age = np.asarray(age_s, np.float64)
        # The shares fall, so their negatives rise. The margin keeps a share that only rounding raises above the level.
        level = -(1 - probability) * self.at(age) - 1e-12
        position = np.searchsorted(-np.asarray(self.survival), level, "left")
        over_at_s = np.asarray(self.times_s)[np.minimum(position, len(self.times_s) - 1)]
        return np.maximum(over_at_s - age, 0.0)

    def thinned(self, most: int) -> Self:
        """The curve with at most about `most` steps, evenly spaced in survival, its last step among them."""
        steps = np.floor(np.asarray(self.survival) * most)
        is_last_of_step = np.append(steps[1:] != steps[:-1], True)
        return self.of(np.asarray(self.times_s)[is_last_of_step], np.asarray(self.survival)[is_last_of_step])


def kaplan_meier(times_s: npt.ArrayLike, ended: npt.ArrayLike, censored: npt.ArrayLike) -> SurvivalCurve:
    """The product-limit estimate of Kaplan and Meier (1958); at equal times, ends come before censorings.

    Args:
        times_s: shape (n,), rising.
        ended: shape (n,), how many sessions ended after exactly this time.
        censored: shape (n,), how many sessions were last seen live after exactly this time.

    Returns:
        A step for each time at which a session ended. Raises `ValueError` where none did.
    """
    times, ends, all_counts = (np.asarray(values, np.float64) for values in (times_s, ended, censored))
    all_counts = all_counts + ends
    at_risk = np.cumsum(all_counts[::-1])[::-1]
    is_step = ends > 0
    if not is_step.any():
        msg = "no session ended, so there is no curve"
        raise ValueError(msg)
    return SurvivalCurve.of(times[is_step], np.cumprod(1 - ends[is_step] / at_risk[is_step]))


def counted(lengths_s: npt.ArrayLike, has_ended: npt.ArrayLike) -> tuple[Numbers, Numbers, Numbers]:
    """Group lengths for `kaplan_meier`: the times, and how many sessions ended and were censored at each."""
    times, place = np.unique(np.asarray(lengths_s, np.float64), return_inverse=True)
    is_end = np.asarray(has_ended, bool)
    counts = (np.bincount(place, weights=chosen, minlength=len(times)) for chosen in (is_end, ~is_end))
    ends, censored = (np.asarray(values, np.float64) for values in counts)
    return times, ends, censored


def observation_weights(lengths_s: npt.ArrayLike, has_ended: npt.ArrayLike) -> Numbers:
    """The weight of each session in a mean over sessions of which some are censored (Graf et al. 1999).

    Long sessions are censored more often than short ones, so the mean over those that ended would be of short ones. An
    ended session therefore stands for 1 / G of them, where G is the share that is still observed after its length. G
    counts as at least 0.05, so that no session outweighs all others. A censored one has the weight 0.

    Args:
        lengths_s: shape (n,), whole seconds.
        has_ended: shape (n,).
    """
    times, ends, censored = counted(lengths_s, has_ended)
    is_end = np.asarray(has_ended, np.float64)
    if not censored.any():
        return is_end
    # The roles are exchanged, and ends come first at equal times: those that ended are no longer at risk.
    at_risk = np.cumsum((ends + censored)[::-1])[::-1] - ends
    is_step = censored > 0
    observed = SurvivalCurve.of(times[is_step], np.cumprod(1 - censored[is_step] / at_risk[is_step]))
    share = np.maximum(observed.at(np.asarray(lengths_s, np.float64) - 1), _LEAST_SHARE_OBSERVED)
    return is_end / share


def pinball_loss(actual: Numbers, forecast: Numbers, probability: float) -> Numbers:
    """The loss of a forecast quantile, in the unit of both (Koenker and Bassett 1978); the true quantile minimizes it.

    Too low a forecast costs `probability` per unit, too high a one `1 - probability`.
    """
    short_by = actual - forecast
    return np.maximum(probability * short_by, (probability - 1) * short_by)


def weighted_mean(values: npt.ArrayLike, weights: Numbers) -> float:
    """The mean with weights; not a number where all weights are 0."""
    total = float(weights.sum())
    return float((np.asarray(values, np.float64) * weights).sum()) / total if total else math.nan


def gain_and_error(gains: Numbers, weights: Numbers, clusters: Sequence[Any] | npt.NDArray[Any]) -> tuple[float, float]:
    """The weighted mean of `gains`, and its standard error, where values of one cluster may depend on each other.

    Args:
        gains: shape (n,), by how much one forecast's loss is below the other's.
        weights: shape (n,).
        clusters: shape (n,), the player of each forecast: players differ, so their sessions are not independent.
    """
    mean = weighted_mean(gains, weights)
    _, place = np.unique(np.asarray(clusters), return_inverse=True)
    deviation = np.bincount(place, weights=weights * (gains - mean))
    total = float(weights.sum())
    return mean, float(np.sqrt((deviation**2).sum())) / total if total else math.nan
