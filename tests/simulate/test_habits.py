"""Players with habits: what their lengths depend on, and what stays as it is."""

import numpy as np
import pytest

from sessionization_simulator.evening import Evening, new_lengths_ms
from sessionization_simulator.fleet import HABIT, RHYTHM, Fleet, Habits
from sessionization_simulator.simulate_settings import LoadPlan

DAY_MS = 86_400_000
MEAN_MS = 2_700_000
MEDIAN_MS = MEAN_MS * np.exp(-0.5)
COUNT = 200_000
FLEET = Fleet(devices=5_000, console_share=0.6, seed=1)


def changed_lengths() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    devices, at_ms = rng.integers(0, FLEET.devices, COUNT).astype(np.int32), rng.integers(0, 7 * DAY_MS, COUNT)
    lengths_ms = new_lengths_ms(COUNT, MEAN_MS, rng)
    return devices, at_ms, lengths_ms, Habits(FLEET).apply(lengths_ms, devices, at_ms, MEDIAN_MS)


def test_mean_and_spread_of_all_lengths_stay() -> None:
    _, _, lengths_ms, changed_ms = changed_lengths()
    assert changed_ms.mean() == pytest.approx(MEAN_MS, rel=0.03)
    assert np.log(changed_ms).std() == pytest.approx(1, abs=0.02)
    assert np.median(changed_ms) == pytest.approx(np.median(lengths_ms), rel=0.03)


def test_accounts_differ_and_keep_their_habit_on_every_device() -> None:
    devices, _, _, changed_ms = changed_lengths()
    accounts = devices % 4_000
    means = np.bincount(accounts, np.log(changed_ms)) / np.bincount(accounts)
    assert means.std() == pytest.approx(HABIT, abs=0.03)
    two = np.array([7, 4_007], np.int32)
    assert FLEET.account_shares(two)[0] == FLEET.account_shares(two)[1]


def test_sessions_are_longest_in_the_evening() -> None:
    _, at_ms, _, changed_ms = changed_lengths()
    hours = at_ms // 3_600_000 % 24
    means = np.bincount(hours, np.log(changed_ms)) / np.bincount(hours)
    assert means.argmax() in {19, 20}
    assert means.std() == pytest.approx(RHYTHM, abs=0.03)


def test_habits_change_lengths_and_nothing_else() -> None:
    plan = LoadPlan(devices=1_000, rate=1, live=50, holds_live=False, session_length_ms=60_000, duration_ms=600_000)
    starts = [
        (played := Evening(plan, 0, np.random.default_rng(1), habits).play(2_000))[~played["is_end"]]
        for habits in (None, Habits(Fleet(1_000, 0.6, 1)))
    ]
    assert np.array_equal(starts[0]["at_ms"], starts[1]["at_ms"])
    assert np.array_equal(starts[0]["device"], starts[1]["device"])
    assert not np.array_equal(starts[0]["ends_ms"], starts[1]["ends_ms"])
