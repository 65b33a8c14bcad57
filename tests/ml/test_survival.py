"""Laws of the survival arithmetic, and examples worked out by hand."""

import math

import numpy as np
import pytest

from sessionization.ml import survival
from sessionization.ml.survival import SurvivalCurve

AGES = np.array([0.0, 1.0, 60.0, 3_600.0, 40_000.0])
PROBABILITIES = (0.01, 0.1, 0.5, 0.9, 0.99)

# The 21 patients under 6-MP of Freireich et al. (1963), weeks to relapse: the textbook example of the estimate.
RELAPSES = (6, 6, 6, 7, 10, 13, 16, 22, 23)
STILL_WELL = (6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35)


def textbook() -> SurvivalCurve:
    lengths = [*RELAPSES, *STILL_WELL]
    return survival.kaplan_meier(*survival.counted(lengths, [True] * len(RELAPSES) + [False] * len(STILL_WELL)))


@pytest.mark.parametrize("sigma", [0.4, 1.0, 2.5])
def test_weibull_quantiles_increase_with_the_probability(sigma: float) -> None:
    log_scale = np.full(len(AGES), math.log(1_800))
    quantiles = [survival.weibull_remaining_s(log_scale, sigma, AGES, p) for p in PROBABILITIES]
    assert np.all(np.diff(quantiles, axis=0) > 0)
    assert np.min(quantiles) >= 0


@pytest.mark.parametrize("sigma", [0.4, 1.0, 2.5])
def test_at_age_0_a_weibull_quantile_is_the_one_of_the_whole_length(sigma: float) -> None:
    for p in PROBABILITIES:
        remaining_s = survival.weibull_remaining_s(np.log([60.0, 1_800.0]), sigma, 0, p)
        assert remaining_s == pytest.approx(np.array([60, 1_800]) * (-math.log(1 - p)) ** sigma)


def test_with_sigma_1_the_remaining_time_does_not_depend_on_the_age() -> None:
    remaining_s = survival.weibull_remaining_s(np.full(len(AGES), math.log(1_800)), 1.0, AGES, 0.5)
    assert remaining_s == pytest.approx(np.full(len(AGES), 1_800 * math.log(2)))


def test_a_quantile_of_the_remaining_time_has_its_probability_given_the_age() -> None:
    """P(T <= a + q | T > a) = p, computed from the law itself."""
    scale_s, sigma, age_s = 1_800.0, 0.7, 2_000.0
    survives = lambda t: math.exp(-((t / scale_s) ** (1 / sigma)))  # noqa: E731
    for p in PROBABILITIES:
        (remaining_s,) = survival.weibull_remaining_s(np.log([scale_s]), sigma, age_s, p)
        assert 1 - survives(age_s + remaining_s) / survives(age_s) == pytest.approx(p)


def test_kaplan_meier_equals_the_textbook_example() -> None:
    curve = textbook()
    assert curve.times_s == (6, 7, 10, 13, 16, 22, 23)
    assert curve.survival == pytest.approx((0.8571, 0.8067, 0.7529, 0.6902, 0.6275, 0.5378, 0.4482), abs=5e-5)


def test_kaplan_meier_without_censoring_is_the_share_that_goes_on() -> None:
    curve = survival.kaplan_meier([1, 2, 5], [1, 2, 1], [0, 0, 0])
    assert curve.survival == pytest.approx((0.75, 0.25, 0))
    assert curve.at([0, 1, 1.5, 2, 4, 5, 9]).tolist() == pytest.approx([1, 0.75, 0.75, 0.25, 0.25, 0, 0])


def test_censoring_some_sessions_lowers_the_curve_nowhere() -> None:
    rng = np.random.default_rng(1)
    lengths_s = rng.integers(1, 500, 300)
    all_end = survival.kaplan_meier(*survival.counted(lengths_s, np.ones(300, bool)))
    some_end = survival.kaplan_meier(*survival.counted(lengths_s, rng.random(300) < 0.7))
    assert np.all(some_end.at(np.arange(600)) >= all_end.at(np.arange(600)) - 1e-12)


def test_a_curve_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="no session ended"):
        survival.kaplan_meier([5.0], [0], [3])


def test_the_curves_quantiles_are_those_of_the_sessions_and_increase() -> None:
    curve = survival.kaplan_meier(np.arange(1, 101), np.ones(100), np.zeros(100))
    assert [curve.remaining_s(0, p) for p in (0.1, 0.5, 0.9)] == [10, 50, 90]
    assert [curve.remaining_s(60, p) for p in (0.1, 0.5, 0.9)] == [4, 20, 36], "of the 40 that lasted longer than 60"
    assert curve.remaining_s([100, 5_000], 0.5).tolist() == [0, 0], "no session is known that lasted longer"
    assert np.all(np.diff([textbook().remaining_s([0, 7, 20], p) for p in PROBABILITIES], axis=0) >= 0)


def test_a_thinned_curve_has_few_steps_near_the_others() -> None:
    curve = survival.kaplan_meier(np.arange(1, 10_001), np.ones(10_000), np.zeros(10_000))
    thinned = curve.thinned(200)
    assert len(thinned.times_s) <= 202
    assert thinned.times_s[-1] == 10_000
    for p in (0.1, 0.5, 0.9):
        assert thinned.remaining_s(0, p) == pytest.approx(curve.remaining_s(0, p), abs=60)


def test_the_pinball_loss_charges_the_two_sides_differently() -> None:
    actual = np.array([10.0, 10.0])
    assert survival.pinball_loss(actual, np.array([7.0, 13.0]), 0.9).tolist() == pytest.approx([2.7, 0.3])
    assert survival.pinball_loss(actual, np.array([7.0, 13.0]), 0.5).tolist() == pytest.approx([1.5, 1.5])


def test_weights_restore_the_mean_that_censoring_hides() -> None:
    rng = np.random.default_rng(1)
    lengths_s, seen_s = rng.exponential(600, 20_000) + 1, rng.uniform(1, 3_000, 20_000)
    has_ended = lengths_s <= seen_s
    observed_s = np.ceil(np.minimum(lengths_s, seen_s))
    weights = survival.observation_weights(observed_s, has_ended)
    naive = observed_s[has_ended].mean()
    assert naive < 0.85 * lengths_s.mean()
    assert survival.weighted_mean(observed_s, weights) == pytest.approx(lengths_s.mean(), rel=0.05)
    assert np.all(weights[~has_ended] == 0)
    assert survival.observation_weights([3, 5], [True, True]).tolist() == [1, 1]


def test_sessions_of_one_player_count_as_one_observation_in_the_error_of_a_gain() -> None:
    gains, weights = np.array([1.0, 1.0, -1.0, -1.0]), np.ones(4)
    mean, error = survival.gain_and_error(gains, weights, ["a", "b", "c", "d"])
    assert (mean, error) == pytest.approx((0, 0.5))
    assert survival.gain_and_error(gains, weights, ["a", "a", "b", "b"])[1] == pytest.approx(math.sqrt(0.5))
