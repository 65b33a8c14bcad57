"""The settings of `jobs/simulate.py`, and their load (Little's law: live = arrivals per second * length)."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from sessionization.durations import Duration, format_duration
from sessionization.settings.kafka_options import parse_kafka_options
from sessionization_simulator.dirt_kinds import DirtKind

GUARANTEE_OPTIONS: Final[Mapping[str, str | bool]] = {
    "acks": "all",
    "delivery.report.only.error": True,
    "enable.idempotence": True,
    # As in Java clients, so that every client sends a device to the same partition.
    "partitioner": "murmur2_random",
}
"""Options of librdkafka that guarantee order, no duplicates, and no silent loss in the Kafka sink."""

REAL_TIME = 1.0
MAX = math.inf
_PACES = {"real-time": REAL_TIME, "max": MAX}


def _parse_pace(value: object) -> object:
    if not isinstance(value, str):
        return value
    factor = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)x", value)
    pace = _PACES.get(value, float(factor[1]) if factor else 0)
    if not pace:
        msg = f"{value!r} is not a pace: write real-time, max, or a factor such as 60x"
        raise ValueError(msg)
    return pace


def _format_pace(pace: float) -> str:
    return next((name for name, factor in _PACES.items() if factor == pace), f"{pace:g}x")


Pace = Annotated[
    float,
    BeforeValidator(_parse_pace),
    PlainSerializer(_format_pace, return_type=str),
    WithJsonSchema({"type": "string", "metavar": "real-time|max|60x"}),
]
"""A pydantic field: simulated seconds per second of the wall clock; infinity means as fast as possible."""

_DURATION_MS = 10 * 60_000
_LONGEST_DEFAULT_LENGTH_MS = 45 * 60_000
_DEVICES = 10_000
MOST_DEVICES = 50_000_000
_DEVICES_PER_LIVE_SESSION = 3
_EVENTS_PER_SESSION = 2
_SHORTEST_LENGTH_MS = 1_000
# The rate peaks at 1.5 times its mean, and the number of live sessions follows the rate.
_PEAK = 1.6


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The complete load. `live` is the mean number of live sessions; with `holds_live`, the constant number."""

    devices: int
    rate: float
    live: float
    holds_live: bool
    session_length_ms: float
    duration_ms: int


def _split(value: object) -> object:
    """Split `a,b` into two kinds; the type of the field then validates each."""
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


class SimulateSettings(BaseModel):
    """Play an evening of gaming: devices start and end sessions, most messages arrive well, some do not.

    Writes JSON lines into DIR/pc_sessions and DIR/console_sessions, or sends each as a message to the Kafka topics of
    those names: the input of the sessionize job. Without --rate and --live a third of the devices play on average;
    with one of them the other follows from the mean session length; with both the mean session length follows from
    them (Little's law).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sink: Literal["files", "kafka"] = Field("files", description="where the messages go")
    output: Path | None = Field(
        None,
        description="with sink files: folder to write into, the input of the sessionize job; made if missing",
        json_schema_extra={"metavar": "DIR"},
    )
    bootstrap_servers: str | None = Field(
        None,
        description="with sink kafka: brokers to begin with, separated by commas; the topics pc_sessions and "
        "console_sessions must exist",
        json_schema_extra={"metavar": "HOST:PORT"},
    )
    kafka_option: tuple[str, ...] = Field(
        (),
        description="with sink kafka: an option of librdkafka, such as security.protocol=SASL_SSL; may be given "
        "several times; a secret is given as env:NAME of an environment variable",
        json_schema_extra={"metavar": "KEY=VALUE", "repeatable": True},
    )
    devices: int | None = Field(
        None, ge=1, le=MOST_DEVICES, description="how many devices there are; without it, enough for the load"
    )
    rate: float | None = Field(
        None,
        gt=0,
        le=10_000_000,
        allow_inf_nan=False,
        description="valid events per second of simulated time, before dirt: the mean of an evening that rises and "
        "falls smoothly, or a constant where a number of live sessions is given",
        json_schema_extra={"metavar": "EVENTS"},
    )
    live: int | None = Field(
        None, ge=1, le=20_000_000, description="live sessions to hold; they all open in the first file"
    )
    duration: Duration | None = Field(
        None, ge=100, description="how much time to simulate; without it, 10m, or as long as the given messages take"
    )
    events: int | None = Field(None, ge=1, description="stop after exactly this many messages, dirt included")
    pace: Pace = Field(
        REAL_TIME,
        description="how fast simulated time passes; at real-time event times follow the wall clock, faster the "
        "evening lies in the past and ends now, so that no event is in the future (the job quarantines what is older "
        "than its bound on the age of events)",
    )
    past: Duration | None = Field(
        None,
        ge=1_000,
        description="with pace real-time: how much of the duration lies in the past; it is written at once, in files "
        "of a minute, and the same players go on in real time",
    )
    session_length: Duration | None = Field(
        None,
        ge=1_000,
        description="mean session length, of a long-tailed distribution; without it, 45m, or a quarter of the "
        "duration where that is shorter",
    )
    habits: bool = Field(
        default=False,
        description="accounts differ in how long they play, and sessions are longest at 20:00 UTC; without it the "
        "length of a session depends on nothing",
    )
    console_share: float = Field(
        0.6,
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="fraction of the devices that are consoles; the others are PCs",
    )
    dirt: float = Field(
        0.02, ge=0, le=1, allow_inf_nan=False, description="fraction of the events that something goes wrong with"
    )
    dirt_kinds: Annotated[tuple[DirtKind, ...], BeforeValidator(_split)] = Field(
        (),
        description=f"what goes wrong, separated by commas; without it, all of: {', '.join(DirtKind)}",
        json_schema_extra={"metavar": "KIND,..."},
    )
    seed: int = Field(
        1, ge=0, le=2**63 - 1, description="same seed, settings and start instant: the same evening, byte for byte"
    )
    file_interval: Duration = Field(
        1_000,
        ge=10,
        description="write a file per stream this often; of the wall clock's time, at pace max of simulated time; "
        "with sink kafka the evening is thought out in such steps, and messages are sent when they are due",
    )

    @field_validator("kafka_option")
    @classmethod
    def _are_kafka_options(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        given = parse_kafka_options(texts)
        for name in ("bootstrap.servers", *GUARANTEE_OPTIONS):
            if name in given:
                msg = f"{name} is set by the simulator: leave it out"
                raise ValueError(msg)
        return texts

    @property
    def kafka_options(self) -> dict[str, str]:
        """The values of `--kafka-option` by name; references to secrets are not resolved."""
        return parse_kafka_options(self.kafka_option)

    @model_validator(mode="after")
    def _sink_is_whole(self) -> Self:
        is_kafka = self.sink == "kafka"
        msg = None
        if is_kafka and (self.bootstrap_servers is None or self.output is not None):
            msg = "--sink kafka needs --bootstrap-servers HOST:PORT, and takes no --output: correct these"
        if not is_kafka and (self.output is None or self.bootstrap_servers is not None or self.kafka_option):
            msg = "--sink files needs --output DIR, and takes no --bootstrap-servers and --kafka-option: correct these"
        if msg:
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _load_is_possible(self) -> Self:
        duration_ms = self.plan().duration_ms
        if self.past is not None and self.pace != REAL_TIME:
            msg = f"--past {format_duration(self.past)} needs --pace real-time: leave out one of them"
            raise ValueError(msg)
        if self.past is not None and self.past >= duration_ms:
            msg = f"--past {format_duration(self.past)} must be less than the duration, {format_duration(duration_ms)}"
            raise ValueError(msg)
        return self

    def plan(self) -> LoadPlan:
        """Compute the load: every number that the model of the evening needs."""
        return _plan_load(self)


def _plan_load(settings: SimulateSettings) -> LoadPlan:
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


def _session_length_ms(settings: SimulateSettings) -> float:
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


def _duration_ms(settings: SimulateSettings, rate: float) -> int:
    """Compute the duration if --duration is not given: with --events, somewhat longer than they take."""
    if settings.events is None:
        return _DURATION_MS
    arriving_share = 1 - settings.dirt / 2  # some dirt loses Starts or Ends
    return 2_000 + math.ceil(1.2 * max(settings.events / arriving_share - (settings.live or 0), 0) / rate * 1_000)
