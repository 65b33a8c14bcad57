"""Players with habits: accounts differ in how long they play, and evenings are longer than mornings."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sessionization.durations import DAY_MS
from sessionization_simulator.fleet import Devices, Fleet

Integers = npt.NDArray[np.int64]

HABIT, RHYTHM = 0.7, 0.28
"""Standard deviations of the logarithm of a session's length: between accounts, and over the day."""
_LONGEST_AT = 20 / 24
"""The time of day (UTC), as a fraction, at which sessions are longest."""


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
