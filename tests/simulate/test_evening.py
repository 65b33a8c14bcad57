"""The model of an evening: session lengths, habits, idle devices and the schedule of messages."""

from collections import Counter

import numpy as np
import pytest

from sessionization_simulator.evening import MESSAGE, Evening, LoadPlan, Schedule, new_lengths_ms
from sessionization_simulator.fleet import HABIT, RHYTHM, Fleet, Habits

START_MS = 1_000_000


def test_a_schedule_loses_no_message_however_far_apart_they_are() -> None:
    rng = np.random.default_rng(1)
    schedule = Schedule("at_ms", span_ms=50)
    added, out = [], []
    for step_ms in range(0, 2_000, 10):
        messages = np.zeros(20, MESSAGE)
        messages["at_ms"] = step_ms + rng.integers(0, 500, 20)
        added += messages["at_ms"].tolist()
        schedule.add(messages)
        out += schedule.take(step_ms + 10)["at_ms"].tolist()
        assert len(schedule) == len(added) - len(out)
    out += schedule.take(10_000)["at_ms"].tolist()
    assert out == sorted(added)


def test_a_constant_number_of_live_sessions_turns_over_at_a_constant_rate_from_the_beginning() -> None:
    plan = LoadPlan(
        devices=60_000, rate=1_000, live=20_000, holds_live=True, session_length_ms=40_000, duration_ms=60_000
    )
    evening = Evening(plan, START_MS, np.random.default_rng(1))
    counts = []
    for second in range(60):
        played = evening.play(START_MS + (second + 1) * 1_000)
        counts.append(np.count_nonzero(played["is_end"]))
        assert evening.live == 20_000
    for ten_seconds in np.array_split(np.array(counts), 6):
        assert ten_seconds.mean() == pytest.approx(500, rel=0.06)


def test_every_device_can_be_busy() -> None:
    plan = LoadPlan(devices=10, rate=10, live=10, holds_live=True, session_length_ms=2_000, duration_ms=60_000)
    evening = Evening(plan, START_MS, np.random.default_rng(1))
    played = evening.play(START_MS + 60_000)
    live: Counter[int] = Counter()
    for message in np.sort(played, order=["at_ms", "is_end"]):
        live[int(message["device"])] += -1 if message["is_end"] else 1
        assert 0 <= live[int(message["device"])] <= 1
    assert len(live) == 10
    assert evening.live >= 9


def test_an_evening_has_exactly_its_rate_and_most_in_the_middle_however_long_its_files_are() -> None:
    plan = LoadPlan(devices=9_000, rate=100, live=500, holds_live=False, session_length_ms=10_000, duration_ms=60_000)
    for cut_ms in (50, 997, 60_000):
        evening = Evening(plan, START_MS, np.random.default_rng(1))
        files = [evening.play(min(at_ms + cut_ms, 60_000) + START_MS) for at_ms in range(0, 60_000, cut_ms)]
        third_of = (np.concatenate(files)["at_ms"] - START_MS) // 20_000
        first, middle, last = np.bincount(third_of).tolist()
        assert first + middle + last == 6_000
        assert middle > 1.5 * max(first, last)


def test_habits_depend_on_account_and_hour_and_leave_mean_and_spread_of_all_lengths() -> None:
    rng, mean_ms, count, hour_ms = np.random.default_rng(1), 2_700_000, 200_000, 3_600_000
    fleet = Fleet(devices=5_000, seed=1)
    devices, at_ms = rng.integers(0, 5_000, count).astype(np.int32), rng.integers(0, 7 * 24 * hour_ms, count)
    lengths_ms = new_lengths_ms(count, mean_ms, rng)
    changed_ms = Habits(fleet).apply(lengths_ms, devices, at_ms, mean_ms * np.exp(-0.5))
    logs = np.log(changed_ms)
    assert changed_ms.mean() == pytest.approx(mean_ms, rel=0.03)
    assert logs.std() == pytest.approx(1, abs=0.02)
    accounts, hours = devices % 4_000, at_ms // hour_ms % 24
    assert (np.bincount(accounts, logs) / np.bincount(accounts)).std() == pytest.approx(HABIT, abs=0.03)
    by_hour = np.bincount(hours, logs) / np.bincount(hours)
    assert by_hour.argmax() in {19, 20}
    assert by_hour.std() == pytest.approx(RHYTHM, abs=0.03)
