"""The devices that play: their ids, accounts, streams and habits."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sessionization.durations import DAY_MS

Devices = npt.NDArray[np.int32]
"""Device numbers, from 0."""

Integers = npt.NDArray[np.int64]

_DEVICES_PER_ACCOUNT = 1.25
_CONSOLE_SHARE = 0.6

HABIT, RHYTHM = 0.7, 0.28
"""Standard deviations of the logarithm of a session's length: between accounts, and over the day."""
_LONGEST_AT = 20 / 24
"""The time of day (UTC), as a fraction, at which sessions are longest."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Numbered devices, the consoles first.

    The same seed gives the same devices, so that they play again in the next run. Ids are computed from the number, so
    that millions of devices take no memory.
    """

    devices: int
    seed: int

    def ids(self, devices: Devices) -> list[str]:
        """Compute the device ids, all different: sixteen hexadecimal digits."""
        return [f"{bits:016x}" for bits in self._mixed(devices, 0).tolist()]

    def accounts(self, devices: Devices) -> list[str]:
        """Compute the account ids; a quarter of the accounts has two devices, such as a console and a PC."""
        return [f"{bits:016x}" for bits in self._mixed(self._account_numbers(devices), 1).tolist()]

    def account_shares(self, devices: Devices) -> npt.NDArray[np.float64]:
        """Compute a random-looking number in [0, 1) per account, which stays the same from run to run."""
        return self._mixed(self._account_numbers(devices), 2) / 2.0**64

    def are_consoles(self, devices: Devices) -> npt.NDArray[np.bool_]:
        return devices < round(self.devices * _CONSOLE_SHARE)

    def _account_numbers(self, devices: Devices) -> Devices:
        accounts: Devices = devices % max(round(self.devices / _DEVICES_PER_ACCOUNT), 1)
        return accounts

    def _mixed(self, numbers: Devices, series: int) -> npt.NDArray[np.uint64]:
        """Compute 64 random-looking bits per number, different for different numbers."""
        start = np.random.default_rng([self.seed, series]).integers(0, 2**64, dtype=np.uint64)
        return _mix(numbers.astype(np.uint64) + start)


@dataclass(frozen=True, slots=True)
class Habits:
    """Changes the lengths of sessions so that they depend on the account and on the time of day.

    The lengths of all sessions together stay as they are: as much as habit and rhythm add to their spread is taken from
    what remains chance.
    """

    fleet: Fleet

    def apply(self, lengths_ms: Integers, devices: Devices, at_ms: Integers, median_ms: float) -> Integers:
        """The lengths instead of `lengths_ms`, whose logarithms have the standard deviation 1 about `median_ms`.

        `at_ms` are the starts. All arrays have the shape (n,), lengths and starts are milliseconds.
        """
        chance = math.sqrt(1 - HABIT**2 - RHYTHM**2) * np.log(np.maximum(lengths_ms, 1) / median_ms)
        # Uniform between these bounds, and a sine of this height: their standard deviations are HABIT and RHYTHM.
        habit = math.sqrt(3) * HABIT * (2 * self.fleet.account_shares(devices) - 1)
        rhythm = math.sqrt(2) * RHYTHM * np.cos(2 * math.pi * (at_ms / DAY_MS - _LONGEST_AT))
        changed: Integers = (median_ms * np.exp(chance + habit + rhythm)).astype(np.int64)
        return changed


def _mix(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scatter numbers over 64 bits, one to one (the finalizer of SplitMix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
