"""The settings of `jobs/simulate.py`: one field per option, validated here."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from sessionization.durations import Duration, format_duration
from sessionization.settings.kafka_options import SCOPE_PREFIX, parse_kafka_options
from sessionization_simulator.dirt_kinds import DirtKind
from sessionization_simulator.load_plan import MOST_DEVICES, LoadPlan, plan_load
from sessionization_simulator.pace import REAL_TIME, Pace

GUARANTEE_OPTIONS: Final[Mapping[str, str | bool]] = {
    "acks": "all",
    "delivery.report.only.error": True,
    "enable.idempotence": True,
    # As in Java clients, so that every client sends a device to the same partition.
    "partitioner": "murmur2_random",
}
"""Options of librdkafka that guarantee order, no duplicates, and no silent loss in the Kafka sink."""
_BROKER_OPTIONS = frozenset({"bootstrap.servers", "metadata.broker.list"})


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
        for name, value in parse_kafka_options(texts).items():
            if value.startswith(SCOPE_PREFIX):
                msg = f"{name}: the simulator reads no secret scopes: write {name}=env:NAME, and give it that variable"
                raise ValueError(msg)
            if name in _BROKER_OPTIONS:
                msg = f"{name} is an option of its own: write --bootstrap-servers HOST:PORT"
                raise ValueError(msg)
            # Names with an underscore are callbacks and the like, which only a program can pass.
            if name in {*GUARANTEE_OPTIONS, "request.required.acks", "logger", "opaque"} or "_" in name:
                msg = f"{name} is not to be chosen here: leave it out"
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
        if is_kafka and self.bootstrap_servers is None:
            msg = "--sink kafka needs --bootstrap-servers: name the brokers, as in --bootstrap-servers 127.0.0.1:9092"
        elif is_kafka and self.output is not None:
            msg = "--sink kafka takes no --output: leave it out, or write --sink files"
        elif not is_kafka and self.bootstrap_servers is not None:
            msg = "--sink files takes no --bootstrap-servers: leave it out, or write --sink kafka"
        elif not is_kafka and self.kafka_option:
            msg = "--sink files takes no --kafka-option: leave it out, or write --sink kafka"
        elif not is_kafka and self.output is None:
            msg = "--sink files needs --output: name the folder, as in --output events"
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
        return plan_load(self)
