"""The model of an evening: session lengths, idle devices and the schedule of messages."""

from collections import Counter

import numpy as np
import pytest

from sessionization_simulator.evening import Evening, new_lengths_ms, remaining_ms
from sessionization_simulator.message_schedule import MESSAGE, Messages, Schedule
from sessionization_simulator.simulate_settings import LoadPlan

START_MS = 1_000_000


def messages_at(*instants_ms: int) -> Messages:
    messages = np.zeros(len(instants_ms), MESSAGE)
    messages["at_ms"] = instants_ms
    return messages


def take_times(schedule: Schedule, until_ms: int) -> list[int]:
    return [int(at_ms) for at_ms in schedule.take(until_ms)["at_ms"]]


def test_a_schedule_loses_no_message_however_far_apart_they_are() -> None:
    rng = np.random.default_rng(1)
    schedule = Schedule("at_ms", span_ms=50)
    added, out = [], []
    for step_ms in range(0, 2_000, 10):
        instants_ms = step_ms + rng.integers(0, 500, 20)
        added += instants_ms.tolist()
        schedule.add(messages_at(*instants_ms))
        out += take_times(schedule, step_ms + 10)
        assert len(schedule) == len(added) - len(out)
    out += take_times(schedule, 10_000)
    assert out == sorted(added)


def test_lengths_have_the_requested_mean_and_a_long_tail() -> None:
    lengths_ms = new_lengths_ms(200_000, 60_000, np.random.default_rng(1))
    assert lengths_ms.mean() == pytest.approx(60_000, rel=0.02)
    assert np.median(lengths_ms) == pytest.approx(60_000 * 0.607, rel=0.02)
    assert lengths_ms.max() > 20 * 60_000


def test_the_remaining_lengths_of_random_live_sessions_follow_renewal_theory() -> None:
    """By renewal theory the mean remaining length is E[length ** 2] / (2 * E[length])."""
    rng = np.random.default_rng(1)
    lengths_ms = new_lengths_ms(500_000, 60_000, rng).astype(float)
    remaining = remaining_ms(500_000, 60_000, rng)
    assert remaining.mean() == pytest.approx((lengths_ms**2).mean() / (2 * lengths_ms.mean()), rel=0.05)


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


def test_the_rate_of_an_evening_does_not_depend_on_the_length_of_its_files() -> None:
    plan = LoadPlan(devices=9_000, rate=100, live=500, holds_live=False, session_length_ms=10_000, duration_ms=60_000)
    for cut_ms in (50, 997, 60_000):
        evening = Evening(plan, START_MS, np.random.default_rng(1))
        played = sum(len(evening.play(min(at_ms + cut_ms, 60_000) + START_MS)) for at_ms in range(0, 60_000, cut_ms))
        assert played == 6_000
