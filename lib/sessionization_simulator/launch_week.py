"""The first week of a studio's games: who begins to play on which day, who comes back, and what their devices send."""

from collections.abc import Iterator

import numpy as np

from sessionization.durations import DAY_MS, HOUR_MS, MINUTE_MS
from sessionization_simulator.dirt import Dirt, DirtKind
from sessionization_simulator.evening import MESSAGE, Messages, concatenate, matching_ends, new_lengths_ms, session_ids
from sessionization_simulator.fleet import Devices, Fleet, Integers

_NEW_PLAYERS = (150, 80, 60, 50, 70, 110, 90)
"""How many accounts play for the first time on each day, from Monday on."""
_CROWD = (1.0, 1.0, 1.0, 1.0, 1.1, 1.2, 1.2)
"""How much likelier than on a Monday an account comes back."""
_COMES_BACK, _FADES = 0.42, 0.35
"""The share of accounts that come back on the day after the first one, and how fast it falls after that."""
_MORE_SESSIONS = 1.1
_EVENING_SHARE, _EVENING_H, _AFTERNOON_H = 0.65, (20.0, 2.2), (14.5, 3.5)
"""The share of sessions that start in the evening; mean and standard deviation of their hour (UTC), and of the rest."""
_LENGTH_MS = 40 * MINUTE_MS
_SHORTEST_BREAK_MS, _LONGEST_BREAK_MS = MINUTE_MS, 20 * MINUTE_MS
_NO_ACCOUNT_SHARE, _SECOND_DEVICE_SHARE = 0.05, 0.4
_DIRT = 0.06
_DIRT_KINDS = (
    DirtKind.REPEAT, DirtKind.LATE_END, DirtKind.END_BEFORE_START, DirtKind.OVERLAP, DirtKind.LOST_START,
    DirtKind.LOST_END, DirtKind.MALFORMED_JSON,
)  # fmt: skip
_SEED = 7

FLEET = Fleet(devices=762, seed=_SEED)
"""Of 610 accounts; a quarter of them has two devices."""
ACCOUNTS = sum(_NEW_PLAYERS)
LASTS_MS = 7 * DAY_MS - HOUR_MS // 2
"""From Monday, 00:00 UTC, to Sunday, 23:30: some still play."""


def launch_week(begins_ms: int) -> Messages:
    """The messages that arrive in the week that begins then, in the order of their arrival; each time the same."""
    rng = np.random.default_rng(_SEED)
    starts = concatenate(*_starts(begins_ms, rng))
    starts = _one_after_the_other(starts[np.lexsort((starts["at_ms"], starts["device"]))], rng)
    dirt = Dirt(_DIRT, _DIRT_KINDS, _LENGTH_MS, begins_ms + LASTS_MS, rng)
    messages = dirt.apply(concatenate(starts, matching_ends(starts, rng)))
    return messages[messages["deliver_ms"] < begins_ms + LASTS_MS]


def _starts(begins_ms: int, rng: np.random.Generator) -> Iterator[Messages]:
    """The Starts of each day."""
    first_days = rng.permutation(np.repeat(np.arange(len(_NEW_PLAYERS)), _NEW_PLAYERS))
    keenness = 2 * rng.random(ACCOUNTS)
    for day, crowd in enumerate(_CROWD):
        age = day - first_days
        chance = keenness * crowd * _COMES_BACK * np.maximum(age, 1) ** -_FADES
        plays = (age == 0) | ((age > 0) & (rng.random(ACCOUNTS) < chance))
        accounts = np.repeat(np.flatnonzero(plays), 1 + rng.poisson(_MORE_SESSIONS, np.count_nonzero(plays)))
        starts = np.zeros(len(accounts), MESSAGE)
        starts["device"] = _devices_of(accounts.astype(np.int32), rng)
        starts["session_id"] = session_ids(len(accounts), rng)
        starts["at_ms"] = begins_ms + day * DAY_MS + _times_of_day(len(accounts), rng)
        starts["has_account"] = FLEET.account_shares(starts["device"]) >= _NO_ACCOUNT_SHARE
        yield starts


def _devices_of(accounts: Devices, rng: np.random.Generator) -> Devices:
    """A device of each account: the fleet's devices are numbered through all accounts, and then once more."""
    seconds = accounts + ACCOUNTS
    has_second = seconds < FLEET.devices
    devices: Devices = np.where(
        has_second & (rng.random(len(accounts)) < _SECOND_DEVICE_SHARE), seconds, accounts
    ).astype(np.int32)
    return devices


def _times_of_day(count: int, rng: np.random.Generator) -> Integers:
    in_evening = rng.random(count) < _EVENING_SHARE
    hours = np.where(in_evening, rng.normal(*_EVENING_H, count), rng.normal(*_AFTERNOON_H, count))
    times: Integers = (np.clip(hours, 0, 24 - 1e-6) * HOUR_MS).astype(np.int64)
    return times


def _one_after_the_other(starts: Messages, rng: np.random.Generator) -> Messages:
    """Give the Starts, sorted by device and time, their ends; where two sessions overlap, move the later one."""
    lengths_ms = new_lengths_ms(len(starts), _LENGTH_MS, rng)
    breaks_ms = rng.integers(_SHORTEST_BREAK_MS, _LONGEST_BREAK_MS, len(starts))
    before, free_ms = -1, 0
    for number, (device, at_ms) in enumerate(zip(starts["device"].tolist(), starts["at_ms"].tolist(), strict=True)):
        begins_ms = max(at_ms, free_ms) if device == before else at_ms
        starts["at_ms"][number] = begins_ms
        starts["ends_ms"][number] = ends_ms = begins_ms + max(int(lengths_ms[number]), 1_000)
        before, free_ms = device, ends_ms + int(breaks_ms[number])
    starts["deliver_ms"] = starts["at_ms"]
    return starts
