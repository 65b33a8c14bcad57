"""The model of an evening: it decides which device starts and ends which session, and when. Messages are arrays."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sessionization_simulator.fleet import Devices, Habits, Integers

Messages = npt.NDArray[np.void]
"""An array of `MESSAGE`."""

MESSAGE = np.dtype(
    [
        ("deliver_ms", np.int64),
        ("at_ms", np.int64),
        ("ends_ms", np.int64),
        ("session_id", np.int64),
        ("foreground_s", np.int64),
        ("device", np.int32),
        ("dirt", np.int8),
        ("is_end", np.bool_),
        ("is_ping", np.bool_),
        ("has_foreground", np.bool_),
        ("has_account", np.bool_),
    ]
)
"""One message, a Start unless it says otherwise: `at_ms` is its event time, `ends_ms` the end of its session, `dirt`
the code of a `DirtKind`."""

# Standard deviation of the logarithm of a session's length: half of the sessions are shorter than 0.6 of the mean,
# one in fifty is longer than 4.7 times the mean.
_SPREAD = 1.0
_SWING = 0.5
_STEPS_PER_SESSION = 50
_STEPS_PER_EVENING = 100
_STEPS_PER_SPAN = 8
_ACCOUNT_SHARE = 0.95
_FOREGROUND_SHARE = 0.95
_LEAST_IN_FOREGROUND = 0.7


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The complete load. `live` is the mean number of live sessions; with `holds_live`, the constant number."""

    devices: int
    rate: float
    live: float
    holds_live: bool
    session_length_ms: float
    duration_ms: int


class Evening:
    """Devices that start and end sessions according to the plan, each device one session at a time.

    A plan with `holds_live` opens all sessions at once, with the remaining lengths of sessions that are observed at a
    random instant. Then a new session replaces each one that ends. Without `holds_live` the evening begins without
    sessions, and the rate of events rises and falls once over the duration. Without `habits` the length of a session
    depends on nothing.
    """

    def __init__(self, plan: LoadPlan, start_ms: int, rng: np.random.Generator, habits: Habits | None = None) -> None:
        self._plan = plan
        self._habits = habits
        self._start_ms = start_ms
        self._clock_ms = start_ms
        self._rng = rng
        self._step_ms = max(
            int(min(plan.session_length_ms / _STEPS_PER_SESSION, plan.duration_ms / _STEPS_PER_EVENING)), 1
        )
        self._ends = Schedule("at_ms", _STEPS_PER_SPAN * self._step_ms)
        self._idle = _IdleDevices(plan.devices, rng)
        self._played = 0

    @property
    def live(self) -> int:
        """The number of live sessions."""
        return len(self._ends)

    def play(self, until_ms: int) -> Messages:
        """Continue to `until_ms`; return the Starts and Ends before it, a session's End always after its Start."""
        played = []
        while self._clock_ms < until_ms:
            played.append(self._step(min(self._clock_ms + self._step_ms, until_ms)))
        return concatenate(*played)

    def _step(self, until_ms: int) -> Messages:
        ends = self._ends.take(until_ms)
        if self._plan.holds_live:
            wanted = int(self._plan.live) - self.live
        else:
            wanted = self._events_by(until_ms) - self._played - len(ends)
        # A device whose session ends in this step starts its next one in a later step, so that they never overlap.
        devices = self._idle.take(min(max(wanted, 0), len(self._idle)))
        self._idle.give_back(ends["device"])
        starts = self._open(devices, until_ms)
        self._clock_ms = until_ms
        self._played += len(starts) + len(ends)
        return concatenate(starts, ends)

    def _events_by(self, at_ms: int) -> int:
        """Count the events of the curve from the start to an instant, so that rounding errors do not add up."""
        duration_s = self._plan.duration_ms / 1_000
        passed_s = (at_ms - self._start_ms) / 1_000
        phase = 2 * math.pi * passed_s / duration_s
        return math.floor(self._plan.rate * (passed_s - _SWING * duration_s / (2 * math.pi) * math.sin(phase)))

    def _open(self, devices: Devices, until_ms: int) -> Messages:
        count, rng = len(devices), self._rng
        starts = np.zeros(count, MESSAGE)
        starts["device"] = devices
        starts["session_id"] = session_ids(count, rng)
        starts["at_ms"] = rng.integers(self._clock_ms, until_ms, count)
        began_earlier = self._plan.holds_live and self._clock_ms == self._start_ms
        lengths_ms = (remaining_ms if began_earlier else new_lengths_ms)(count, self._plan.session_length_ms, rng)
        if self._habits is not None:
            median_ms = self._plan.session_length_ms * math.exp(-(_SPREAD**2) / 2)
            lengths_ms = self._habits.apply(lengths_ms, devices, starts["at_ms"], median_ms)
        # This step's Ends have been taken already, so an End within the step of its Start would be missed.
        starts["ends_ms"] = np.maximum(starts["at_ms"] + lengths_ms, until_ms)
        starts["deliver_ms"] = starts["at_ms"]
        starts["has_account"] = rng.random(count) < _ACCOUNT_SHARE
        self._ends.add(matching_ends(starts, rng))
        return starts


def session_ids(count: int, rng: np.random.Generator) -> Integers:
    """Draw positive numbers of up to 63 bits; the range is large enough to avoid collisions."""
    return rng.integers(1, 2**63 - 1, count, endpoint=True)


def new_lengths_ms(count: int, mean_ms: float, rng: np.random.Generator) -> Integers:
    """Draw the lengths of new sessions."""
    return rng.lognormal(math.log(mean_ms) - _SPREAD**2 / 2, _SPREAD, count).astype(np.int64)


def remaining_ms(count: int, mean_ms: float, rng: np.random.Generator) -> Integers:
    """Draw the remaining lengths of sessions observed at a random instant, which favours long sessions."""
    observed_ms = rng.lognormal(math.log(mean_ms) + _SPREAD**2 / 2, _SPREAD, count)
    return (observed_ms * rng.random(count)).astype(np.int64)


def matching_ends(starts: Messages, rng: np.random.Generator) -> Messages:
    """Build the Ends of the given Starts."""
    ends = starts.copy()
    ends["is_end"] = True
    ends["at_ms"] = ends["deliver_ms"] = starts["ends_ms"]
    in_foreground = rng.uniform(_LEAST_IN_FOREGROUND, 1, len(starts))
    ends["foreground_s"] = (starts["ends_ms"] - starts["at_ms"]) // 1_000 * in_foreground
    ends["has_foreground"] = rng.random(len(starts)) < _FOREGROUND_SHARE
    return ends


class _IdleDevices:
    """The devices without a session, taken at random; the load of the evening decides how long a device rests."""

    def __init__(self, devices: int, rng: np.random.Generator) -> None:
        self._devices = np.arange(devices, dtype=np.int32)
        self._count = devices
        self._rng = rng

    def __len__(self) -> int:
        return self._count

    def take(self, count: int) -> Devices:
        positions = self._rng.choice(self._count, count, replace=False, shuffle=False)
        devices = self._devices[positions]
        # Fill the gaps from the tail, so that the cost does not grow with the number of devices.
        remaining = self._count - count
        in_tail = positions >= remaining
        is_untaken = np.ones(count, np.bool_)
        is_untaken[positions[in_tail] - remaining] = False
        self._devices[positions[~in_tail]] = self._devices[remaining : self._count][is_untaken]
        self._count = remaining
        return devices

    def give_back(self, devices: Devices) -> None:
        self._devices[self._count : self._count + len(devices)] = devices
        self._count += len(devices)


class Schedule:
    """Messages that wait for the instant in one of their fields.

    They lie in spans of time, so that a step does not scan millions that are due later.
    """

    def __init__(self, field: Literal["at_ms", "deliver_ms"], span_ms: int) -> None:
        """`span_ms` is the length of a span; choose a few steps."""
        self._field = field
        self._span_ms = span_ms
        self._by_span: dict[int, list[Messages]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, messages: Messages) -> None:
        self._count += len(messages)
        ordered = in_order(messages, self._field)
        spans, firsts = np.unique(ordered[self._field] // self._span_ms, return_index=True)
        for span, part in zip(spans.tolist(), np.split(ordered, firsts[1:]), strict=False):
            self._by_span.setdefault(span, []).append(part)

    def take(self, until_ms: int) -> Messages:
        """Take, in order, the messages due before `until_ms`; messages added later must not be due before it."""
        spans = [span for span in self._by_span if span <= until_ms // self._span_ms]
        waiting = concatenate(*(part for span in spans for part in self._by_span.pop(span)))
        is_due = waiting[self._field] < until_ms
        self._count -= len(waiting)
        self.add(waiting[~is_due])
        return in_order(waiting[is_due], self._field)


def in_order(messages: Messages, field: str) -> Messages:
    """Sort by one field; the sort is stable."""
    return messages[np.argsort(messages[field], kind="stable")]


def concatenate(*parts: Messages) -> Messages:
    return np.concatenate(parts) if parts else np.empty(0, MESSAGE)


def with_fields(messages: Messages, **fields: Any) -> Messages:
    """Copy messages, and set some of their fields."""
    copy = messages.copy()
    for name, values in fields.items():
        copy[name] = values
    return copy
