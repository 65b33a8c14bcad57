"""The simulated week: the same each time, with players who begin, come back, and play one session at a time."""

import numpy as np

from sessionization.durations import DAY_MS
from sessionization_simulator.dirt import CLEAN
from sessionization_simulator.evening import Messages
from sessionization_simulator.launch_week import ACCOUNTS, FLEET, LASTS_MS, launch_week

BEGINS_MS = 1_763_337_600_000


def week() -> Messages:
    return launch_week(BEGINS_MS)


def test_the_week_is_the_same_each_time() -> None:
    assert np.array_equal(week(), week())


def test_messages_arrive_within_the_week() -> None:
    arrived_ms = week()["deliver_ms"]
    assert arrived_ms.min() >= BEGINS_MS
    assert arrived_ms.max() < BEGINS_MS + LASTS_MS


def test_a_device_plays_one_session_at_a_time() -> None:
    messages = week()
    starts = messages[~messages["is_end"] & (messages["dirt"] == CLEAN)]
    starts = starts[np.lexsort((starts["at_ms"], starts["device"]))]
    goes_on = (starts["device"][1:] == starts["device"][:-1]) & (starts["session_id"][1:] != starts["session_id"][:-1])
    assert (starts["at_ms"][1:] > starts["ends_ms"][:-1])[goes_on].all()


def test_players_come_and_some_come_back() -> None:
    messages = week()
    days = (messages["at_ms"] - BEGINS_MS) // DAY_MS
    accounts = messages["device"] % ACCOUNTS
    in_week = (messages["dirt"] == CLEAN) & (days < 7)
    played = np.zeros((ACCOUNTS, 7), np.bool_)
    played[accounts[in_week], days[in_week]] = True
    assert played.any(axis=1).mean() > 0.98, "all but those whose messages are all dirty, or come after Sunday, 23:30"
    of_monday = played[played[:, 0]]
    assert 0.25 < of_monday[:, 1].mean() < 0.55
    assert 0.1 < of_monday[:, 4].mean() < of_monday[:, 1].mean() + 0.1
    assert len(np.unique(messages["device"])) > ACCOUNTS
    assert messages["device"].max() < FLEET.devices
