"""The settings of `jobs/simulate.py`, and their load (Little's law: live = arrivals per second * length)."""

import math
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from sessionization.durations import Duration, format_duration
from sessionization.event_map.model import EventMap
from sessionization.event_map.reading import DEFAULT, read_event_map
from sessionization.settings.kafka_options import parse_kafka_options
from sessionization.settings.section import EVENTS, EVENTS_METAVAR
from sessionization_simulator.dirt import PING_ONLY, DirtKind
from sessionization_simulator.evening import LoadPlan
from sessionization_simulator.malformed import possible_dirt

_SPEEDS = {"real-time": 1.0, "max": math.inf}
_DURATION_MS = 10 * 60_000
_LONGEST_DEFAULT_LENGTH_MS = 45 * 60_000
_SHORTEST_DEFAULT_LENGTH_MS = 1_000
_DEVICES = 10_000
_DEVICES_PER_LIVE_SESSION = 3
_EVENTS_PER_SESSION = 2
# The rate peaks at 1.5 times its mean, and the number of live sessions follows the rate.
_PEAK = 1.6


def _split(value: object) -> object:
    """Split `a,b` into two kinds; the type of the field then validates each."""
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


class SimulateSettings(BaseModel):
    """Play an evening of gaming: devices start and end sessions, most messages arrive well, some do not.

    Writes JSON lines into a folder of DIR for each stream of the event map, or sends each as a message to the Kafka
    topics of those names: the input of the sessionize job. Without --rate and --live a third of the devices play on
    average; with one of them the other follows from the mean session length; with both the mean session length follows
    from them (Little's law).
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
        description="with sink kafka: brokers to begin with, separated by commas; a topic for each stream "
        "of the event map must exist",
        json_schema_extra={"metavar": "HOST:PORT"},
    )
    events: str = Field(DEFAULT, description=EVENTS, json_schema_extra=EVENTS_METAVAR)
    kafka_option: tuple[str, ...] = Field(
        (),
        description="with sink kafka: an option of librdkafka, such as security.protocol=SASL_SSL; may be given "
        "several times; a secret is given as env:NAME of an environment variable",
        json_schema_extra={"metavar": "KEY=VALUE", "repeatable": True},
    )
    devices: int | None = Field(None, ge=1, description="how many devices there are; without it, enough for the load")
    rate: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="valid events per second of simulated time, before dirt: the mean of an evening that rises and "
        "falls smoothly, or a constant where a number of live sessions is given",
        json_schema_extra={"metavar": "EVENTS"},
    )
    live: int | None = Field(None, ge=1, description="live sessions to hold; they all open in the first file")
    duration: Duration = Field(_DURATION_MS, ge=100, description="how much time to simulate")
    pace: str = Field(
        "real-time",
        pattern=r"^(real-time|max|[0-9.]+x)$",
        description="how fast simulated time passes; at real-time event times follow the wall clock, faster the "
        "evening lies in the past and ends now, so that no event is in the future (the job quarantines what is older "
        "than its bound on the age of events)",
        json_schema_extra={"metavar": "real-time|max|60x"},
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
    ping: Duration | None = Field(
        None,
        ge=100,
        description="each device sends an event of the map's first kind of activity this often while its session goes "
        "on, beside the events of --rate; without it, none",
    )
    dirt: float = Field(
        0.02, ge=0, le=1, allow_inf_nan=False, description="fraction of the events that something goes wrong with"
    )
    dirt_kinds: Annotated[tuple[DirtKind, ...], BeforeValidator(_split)] = Field(
        (),
        description=f"what goes wrong, separated by commas; without it, all of: {', '.join(DirtKind)} "
        f"({' and '.join(sorted(PING_ONLY))} with --ping)",
        json_schema_extra={"metavar": "KIND,..."},
    )
    seed: int = Field(
        1, ge=0, le=2**63 - 1, description="same seed, settings and start instant: the same evening, byte for byte"
    )
    file_interval: Duration = Field(
        1_000,
        ge=10,
        description="with sink files: write a file per stream this often; of the wall clock's time, at pace max of "
        "simulated time",
    )

    @field_validator("kafka_option")
    @classmethod
    def _are_kafka_options(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        parse_kafka_options(texts)
        return texts

    _event_map: EventMap = PrivateAttr()

    @model_validator(mode="after")
    def _read_events(self) -> Self:
        self._event_map = read_event_map(self.events)
        if self._event_map.is_avro:
            msg = f"--events {self.events}: the simulator writes JSON: leave value: avro and schema_registry out"
            raise ValueError(msg)
        has_pings = self.ping is not None
        if has_pings and not self._event_map.kinds.activity:
            msg = f"--ping: the map --events {self.events} has no kinds.activity: name another map, or leave --ping out"
            raise ValueError(msg)
        if not has_pings and (of_pings := [kind for kind in self.dirt_kinds if kind in PING_ONLY]):
            msg = f"--dirt-kinds {of_pings[0]} happens to pings: add --ping, or leave it out"
            raise ValueError(msg)
        possible = possible_dirt(self._event_map, has_pings=has_pings)
        if impossible := [kind for kind in self.dirt_kinds if kind not in possible]:
            msg = f"--dirt-kinds {impossible[0]} cannot happen to messages of the event map {self.events}: leave it out"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        msg = None
        if self.sink == "kafka" and (self.bootstrap_servers is None or self.output is not None):
            msg = "--sink kafka needs --bootstrap-servers HOST:PORT, and takes no --output: correct these"
        elif self.sink == "files" and (self.output is None or self.bootstrap_servers is not None or self.kafka_option):
            msg = "--sink files needs --output DIR, and takes no --bootstrap-servers and --kafka-option: correct these"
        elif self.past is not None and (self.pace != "real-time" or self.past >= self.duration):
            msg = f"--past {format_duration(self.past)} needs --pace real-time, and a longer --duration: correct these"
        elif self.rate is not None and self.live is not None and self.session_length is not None:
            msg = "--rate, --live and --session-length are too many: leave out one, which follows from the others"
        if msg:
            raise ValueError(msg)
        self.plan()
        return self

    @property
    def event_map(self) -> EventMap:
        """What the messages mean."""
        return self._event_map

    @property
    def speed(self) -> float:
        """Simulated seconds per second of the wall clock; infinity means as fast as possible."""
        return _SPEEDS.get(self.pace) or float(self.pace.removesuffix("x"))

    def plan(self) -> LoadPlan:
        """Compute the load: every number that the model of the evening needs.

        Raises `ValueError` when there are too few devices for it.
        """
        devices, rate, live = self.devices, self.rate, self.live
        default_ms = max(min(_LONGEST_DEFAULT_LENGTH_MS, self.duration / 4), _SHORTEST_DEFAULT_LENGTH_MS)
        length_ms: float = self.session_length or default_ms
        if rate is not None and live is not None:
            length_ms = live * _EVENTS_PER_SESSION * 1_000 / rate
        rate_per_live_session = _EVENTS_PER_SESSION * 1_000 / length_ms
        mean_live: float
        if live is not None:
            mean_live = live
        elif rate is not None:
            mean_live = rate / rate_per_live_session
        else:
            devices = devices or _DEVICES
            mean_live = devices / _DEVICES_PER_LIVE_SESSION
        rate = mean_live * rate_per_live_session if rate is None else rate
        holds_live = live is not None
        peak = math.ceil(mean_live if holds_live else min(_PEAK * mean_live, rate * self.duration / 1_000))
        devices = devices or max(math.ceil(_DEVICES_PER_LIVE_SESSION * mean_live), math.ceil(1.2 * peak), 10)
        if devices < peak:
            msg = f"--devices {devices} are too few for {peak} live sessions: write at least {peak}, or a smaller load"
            raise ValueError(msg)
        return LoadPlan(devices, rate, mean_live, holds_live, length_ms, self.duration)
