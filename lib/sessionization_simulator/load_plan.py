"""Compute all numbers of the load from the options (Little's law: live = arrivals per second * length)."""

import math
from dataclasses import dataclass
from typing import Protocol

from sessionization.durations import format_duration
from sessionization_simulator.dirt_kinds import DirtKind

_DURATION_MS = 10 * 60_000
_LONGEST_DEFAULT_LENGTH_MS = 45 * 60_000
_DEVICES = 10_000
MOST_DEVICES = 50_000_000
_DEVICES_PER_LIVE_SESSION = 3
_EVENTS_PER_SESSION = 2
_SHORTEST_LENGTH_MS = 1_000
# The rate peaks at 1.5 times its mean, and the number of live sessions follows the rate.
_PEAK = 1.6


class LoadOptions(Protocol):
    """The options of the simulator that determine the load; durations are in milliseconds."""

    @property
    def devices(self) -> int | None: ...

    @property
    def rate(self) -> float | None: ...

    @property
    def live(self) -> int | None: ...

    @property
    def duration(self) -> int | None: ...

    @property
    def events(self) -> int | None: ...

    @property
    def session_length(self) -> int | None: ...

    @property
    def dirt(self) -> float: ...

    @property
    def dirt_kinds(self) -> tuple[DirtKind, ...]: ...


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The complete load. `live` is the mean number of live sessions; with `holds_live`, the constant number."""

    devices: int
    rate: float
    live: float
    holds_live: bool
    session_length_ms: float
    duration_ms: int


def plan_load(settings: LoadOptions) -> LoadPlan:
    """Compute the load.

    Raises `ValueError` when the options contradict each other; the message names the option to change.
    """
    length_ms = _session_length_ms(settings)
    rate_per_live_session = _EVENTS_PER_SESSION * 1_000 / length_ms
    devices = settings.devices
    if settings.live is not None:
        live: float = settings.live
    elif settings.rate is not None:
        live = settings.rate / rate_per_live_session
    else:
        devices = devices or _DEVICES
        live = devices / _DEVICES_PER_LIVE_SESSION
    rate = live * rate_per_live_session if settings.rate is None else settings.rate
    duration_ms = settings.duration or _duration_ms(settings, rate)

    holds_live = settings.live is not None
    peak = math.ceil(live if holds_live else min(_PEAK * live, rate * duration_ms / 1_000))
    devices = devices or max(math.ceil(_DEVICES_PER_LIVE_SESSION * live), math.ceil(1.2 * peak), 10)
    if devices > MOST_DEVICES:
        msg = f"{peak} live sessions need {devices} devices, at most {MOST_DEVICES} are possible: write a smaller load"
        raise ValueError(msg)
    if devices < peak:
        msg = f"--devices {devices} are too few for {peak} live sessions: write at least {peak}, or a smaller load"
        raise ValueError(msg)
    return LoadPlan(devices, rate, live, holds_live, length_ms, duration_ms)


def _session_length_ms(settings: LoadOptions) -> float:
    if settings.rate is None or settings.live is None:
        default = min(_LONGEST_DEFAULT_LENGTH_MS, (settings.duration or _DURATION_MS) / 4)
        return settings.session_length or max(default, _SHORTEST_LENGTH_MS)
    length_ms = settings.live * _EVENTS_PER_SESSION * 1_000 / settings.rate
    effect = f"--live {settings.live} at --rate {settings.rate:g} makes sessions of {length_ms / 1_000:g}s on average"
    if settings.session_length is not None:
        msg = f"{effect}: leave out --session-length {format_duration(settings.session_length)}, or one of the others"
        raise ValueError(msg)
    if length_ms < _SHORTEST_LENGTH_MS:
        msg = f"{effect}, too short: write a --rate of at most {settings.live * _EVENTS_PER_SESSION}"
        raise ValueError(msg)
    return length_ms


def _duration_ms(settings: LoadOptions, rate: float) -> int:
    """Compute the duration if --duration is not given: with --events, somewhat longer than they take."""
    if settings.events is None:
        return _DURATION_MS
    share = _arriving_share(settings.dirt, settings.dirt_kinds or tuple(DirtKind))
    if share <= 0:
        msg = f"--events {settings.events} are never reached: with --dirt {settings.dirt:g} every message gets lost"
        raise ValueError(msg)
    burst = settings.live or 0
    return 2_000 + math.ceil(1.2 * max(settings.events / share - burst, 0) / rate * 1_000)


def _arriving_share(dirt: float, kinds: tuple[DirtKind, ...]) -> float:
    """Estimate how many messages arrive per valid event."""
    starts = [kind for kind in kinds if kind.applies_to_starts]
    ends = [kind for kind in kinds if kind.applies_to_ends]
    lost = 0.0
    if DirtKind.LOST_START in starts:
        lost += 1 / len(starts)
    if DirtKind.LOST_END in ends:
        lost += 1 / len(ends)
    return 1 - dirt * lost / 2
