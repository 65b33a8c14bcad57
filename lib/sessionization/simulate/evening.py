"""The model of an evening: which device starts and ends which session, and when."""

import math

import numpy as np
import numpy.typing as npt

from sessionization.simulate.fleet import Devices
from sessionization.simulate.load_plan import LoadPlan
from sessionization.simulate.message_schedule import MESSAGE, Messages, Schedule, joined, no_messages

Integers = npt.NDArray[np.int64]

# Of the logarithm of a session's length: half of the sessions are shorter than 0.6 of the mean, one in fifty is
# longer than 4.7 times the mean.
_SPREAD = 1.0
_SWING = 0.5
_STEPS_PER_SESSION = 50
_STEPS_PER_EVENING = 100
_SOON_STEPS = 8
_ACCOUNT_SHARE = 0.95
_FOREGROUND_SHARE = 0.95
_LEAST_IN_FOREGROUND = 0.7


class Evening:
    """Devices that start and end sessions, one at a time each, as the plan has it.

    A plan that holds a number of live sessions opens them all at once, with what remains of their lengths spread as
    it is among sessions met at a random instant; from then on a session begins where one ends. Otherwise the evening
    begins without sessions, and the rate of events follows a curve that rises and falls once in the duration.
    """

    def __init__(self, plan: LoadPlan, start_ms: int, rng: np.random.Generator) -> None:
        self._plan = plan
        self._start_ms = start_ms
        self._clock_ms = start_ms
        self._rng = rng
        self._step_ms = max(
            int(min(plan.session_length_ms / _STEPS_PER_SESSION, plan.duration_ms / _STEPS_PER_EVENING)), 1
        )
        self._ends = Schedule("at_ms", _SOON_STEPS * self._step_ms)
        self._idle = _IdleDevices(plan.devices, rng)
        self._played = 0

    @property
    def live(self) -> int:
        """How many sessions are live."""
        return len(self._ends)

    def play(self, until_ms: int) -> Messages:
        """Play on to an instant; the Starts and Ends that happen before it, a session's End always after its Start."""
        played = []
        while self._clock_ms < until_ms:
            played.append(self._step(min(self._clock_ms + self._step_ms, until_ms)))
        return joined(*played)

    def _step(self, until_ms: int) -> Messages:
        ends = self._ends.take(until_ms)
        if self._plan.holds_live:
            wanted = int(self._plan.live) - self.live
        else:
            wanted = self._events_by(until_ms) - self._played - len(ends)
        # A device that is done in this step begins again in a later one, so that its sessions never overlap.
        devices = self._idle.take(min(max(wanted, 0), len(self._idle)))
        self._idle.give_back(ends["device"])
        starts = self._open(devices, until_ms)
        self._clock_ms = until_ms
        self._played += len(starts) + len(ends)
        return joined(starts, ends)

    def _events_by(self, at_ms: int) -> int:
        """How many events the curve has had by an instant; counted from the start, so that rounding never adds up."""
        duration_s = self._plan.duration_ms / 1_000
        passed_s = (at_ms - self._start_ms) / 1_000
        turn = 2 * math.pi * passed_s / duration_s
        return math.floor(self._plan.rate * (passed_s - _SWING * duration_s / (2 * math.pi) * math.sin(turn)))

    def _open(self, devices: Devices, until_ms: int) -> Messages:
        count = len(devices)
        if not count:
            return no_messages()
        rng = self._rng
        starts = np.zeros(count, MESSAGE)
        starts["device"] = devices
        starts["session_id"] = session_ids(count, rng)
        starts["at_ms"] = rng.integers(self._clock_ms, until_ms, count)
        are_running = self._plan.holds_live and self._clock_ms == self._start_ms
        lengths_ms = (remaining_ms if are_running else new_lengths_ms)(count, self._plan.session_length_ms, rng)
        # An End in the step of its Start would be overlooked: the step's Ends have been taken already.
        starts["ends_ms"] = np.maximum(starts["at_ms"] + lengths_ms, until_ms)
        starts["deliver_ms"] = starts["at_ms"]
        starts["has_account"] = rng.random(count) < _ACCOUNT_SHARE
        self._ends.add(ends_of(starts, rng))
        return starts


def session_ids(count: int, rng: np.random.Generator) -> Integers:
    """Positive numbers of up to 63 bits, so many that they do not meet."""
    return rng.integers(1, 2**63 - 1, count, endpoint=True)


def new_lengths_ms(count: int, mean_ms: float, rng: np.random.Generator) -> Integers:
    """How long sessions are."""
    return rng.lognormal(math.log(mean_ms) - _SPREAD**2 / 2, _SPREAD, count).astype(np.int64)


def remaining_ms(count: int, mean_ms: float, rng: np.random.Generator) -> Integers:
    """What remains of sessions met at a random instant: long ones are met more often, anywhere in their length."""
    met_ms = rng.lognormal(math.log(mean_ms) + _SPREAD**2 / 2, _SPREAD, count)
    return (met_ms * rng.random(count)).astype(np.int64)


def ends_of(starts: Messages, rng: np.random.Generator) -> Messages:
    """The Ends that belong to some Starts."""
    ends = starts.copy()
    ends["is_end"] = True
    ends["at_ms"] = ends["deliver_ms"] = starts["ends_ms"]
    in_foreground = rng.uniform(_LEAST_IN_FOREGROUND, 1, len(starts))
    ends["foreground_s"] = (starts["ends_ms"] - starts["at_ms"]) // 1_000 * in_foreground
    ends["has_foreground"] = rng.random(len(starts)) < _FOREGROUND_SHARE
    return ends


class _IdleDevices:
    """The devices without a session, taken at random: how long one rests follows from how busy the evening is."""

    def __init__(self, devices: int, rng: np.random.Generator) -> None:
        self._devices = np.arange(devices, dtype=np.int32)
        self._count = devices
        self._rng = rng

    def __len__(self) -> int:
        return self._count

    def take(self, count: int) -> Devices:
        places = self._rng.choice(self._count, count, replace=False, shuffle=False)
        taken = self._devices[places]
        # Fill the gaps from the tail, at a cost that does not grow with the number of devices.
        remaining = self._count - count
        in_tail = places >= remaining
        stays = np.ones(count, np.bool_)
        stays[places[in_tail] - remaining] = False
        self._devices[places[~in_tail]] = self._devices[remaining : self._count][stays]
        self._count = remaining
        return taken

    def give_back(self, devices: Devices) -> None:
        self._devices[self._count : self._count + len(devices)] = devices
        self._count += len(devices)
