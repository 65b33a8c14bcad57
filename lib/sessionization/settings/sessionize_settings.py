"""The settings of `jobs/sessionize.py`: one field per option, checked once, here."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from sessionization.core.session_state import Rules
from sessionization.durations import DAY_MS, HOUR_MS, MINUTE_MS, Duration, DurationRange, PaceRange, format_duration
from sessionization.settings.kafka_options import (
    OUTPUT_TOPIC,
    check_client_options,
    check_output_topic,
    parse_kafka_options,
)
from sessionization.settings.table_location_settings import Location, check_table_location
from sessionization.streams import STREAMS

_KAFKA_ONLY = (
    "bootstrap_servers",
    "starting_offsets",
    "max_offsets_per_trigger",
    "kafka_option",
    "accept_data_loss",
)
SHORTEST_REAL_TIME_MS = 5_000
"""Spark refuses a shorter batch in Real-Time Mode."""
PositiveDuration = Annotated[Duration, Field(ge=1)]


class SessionizeSettings(BaseModel):
    """The input, the output and the session rules of the stream. Durations are milliseconds after parsing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Input.
    source: Literal["files", "kafka"] = Field("files", description="where device events come from")
    input: Location | None = Field(
        None, description="files: input folder, a path or a URI; holds the folders pc_sessions and console_sessions"
    )
    bootstrap_servers: str | None = Field(
        None,
        description="kafka: brokers of the topics pc_sessions and console_sessions, separated by commas",
        json_schema_extra={"metavar": "HOST:PORT"},
    )
    starting_offsets: Literal["earliest", "latest"] = Field(
        "earliest",
        description="kafka: where a new checkpoint begins; give the same at later starts, "
        "which go on from where the last one was",
    )
    max_offsets_per_trigger: int = Field(
        100_000, ge=1, description="kafka: how many messages a micro-batch of the sessionize query takes at most"
    )
    kafka_option: tuple[str, ...] = Field(
        (),
        description="kafka: option of the client, as in kafka.security.protocol=SASL_SSL; may be given several times; "
        "a secret is given as env:NAME or secret:SCOPE/KEY",
        json_schema_extra={"metavar": "KEY=VALUE", "repeatable": True},
    )
    accept_data_loss: bool = Field(
        default=False,
        description="kafka: go on where the brokers deleted messages before they were read; for one start",
    )
    # Output.
    sink: Literal["tables", "kafka"] = Field(
        "tables",
        description="where changes go: tables means session_changes, kafka (needs source kafka) means the output "
        "topic, from which the job land_changes copies them into session_changes",
    )
    output_topic: str = Field(
        OUTPUT_TOPIC,
        description="with sink kafka: the topic that changes go to, on the same brokers; "
        "no job with other tables may use it",
        json_schema_extra={"metavar": "TOPIC"},
    )
    mode: Literal["micro-batch", "real-time"] = Field(
        "micro-batch",
        description="how the sessionize query runs; real-time sends a change as soon as it is known, on Databricks, "
        "with source kafka and sink kafka",
    )
    # Location of tables and checkpoints.
    warehouse: Location | None = Field(None, description="folder of the Delta tables; a path or a URI")
    catalog: str | None = Field(None, description="Unity Catalog catalog of the tables, on Databricks")
    schema_name: str | None = Field(None, alias="schema", description="schema of the tables in --catalog")
    checkpoints: Location = Field(
        description="folder of the queries' checkpoints, a path or a URI; keep it as long as the tables"
    )
    # Session rules.
    heartbeat: PositiveDuration = Field(30_000, description="how often a live session emits a heartbeat")
    session_timeout: PositiveDuration = Field(
        12 * HOUR_MS,
        description="the longest a session stays live without an End (processing time): "
        "longer than anybody plays at a stretch",
    )
    late_retention: PositiveDuration = Field(
        10 * MINUTE_MS,
        description="how long a closed session, or an End without Start, is remembered (processing time): "
        "longer than a sender may take to repeat an upload",
    )
    max_sessions_per_device: int = Field(
        64, ge=1, le=10_000, description="bound on the remembered sessions of a device"
    )
    max_clock_skew: Duration = Field(
        10 * MINUTE_MS, ge=0, description="an event further ahead of its ingest time than this is quarantined"
    )
    max_event_age: Duration = Field(
        7 * DAY_MS, ge=0, description="an event older than this at its ingest time is quarantined"
    )
    # Pace and layout of the state.
    trigger: PositiveDuration = Field(
        1_000,
        description="how often the sessionize query plans a micro-batch; "
        "in mode real-time how long a batch lasts, 5s or more",
    )
    archive_every: PaceRange = Field(
        DurationRange(5_000, 30_000),
        description="the time from one micro-batch of the archive query to the next, shortest and longest; "
        "between them it is ten times what a micro-batch takes: a tenth of the time; one duration is a fixed time",
    )
    rollup_every: PaceRange = Field(
        DurationRange(2_000, 10_000),
        description="as archive-every, for the rollup query, which uses three tenths of the time",
    )
    device_groups: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="group devices by hash into this many state keys; without it, one a device",
    )
    expected_devices: int | None = Field(
        None,
        ge=1,
        le=1_000_000_000,
        description="in place of device groups: how many devices to expect with a session that is live or still "
        "remembered; a new checkpoint computes its groups from this number, an old one retains its groups",
    )
    from_sessions: bool = Field(
        default=False,
        description="a new checkpoint takes over the tables of a checkpoint that was lost or had other device groups, "
        "and begins with their live sessions; an old checkpoint goes on as it is",
    )
    # Monitoring.
    mlflow: str = Field(
        "auto",
        min_length=1,
        description="MLflow experiment that stores one run per start; auto: sessionization, where MLflow "
        "is installed; off: none",
        json_schema_extra={"metavar": "EXPERIMENT"},
    )
    metrics_port: int | None = Field(
        None,
        ge=1,
        le=65_535,
        description="serve metrics for Prometheus at /metrics on this port; needs the extra metrics",
    )
    metrics_host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="address that serves the metrics; 0.0.0.0 is every interface",
        json_schema_extra={"metavar": "ADDRESS"},
    )
    run_for: PositiveDuration | None = Field(
        None, description="stop gracefully after this long; without it, run until SIGTERM or Ctrl-C"
    )

    @field_validator("kafka_option")
    @classmethod
    def _check_kafka_option(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        return check_client_options(texts)

    @field_validator("output_topic")
    @classmethod
    def _check_output_topic(cls, name: str) -> str:
        return check_output_topic(name)

    @model_validator(mode="after")
    def _check_real_time(self) -> Self:
        msg = None
        if self.mode == "micro-batch":
            return self
        if self.source != "kafka":
            msg = (
                "--mode real-time needs --source kafka, because it reads no files: add that, --bootstrap-servers and "
                "--sink kafka, or leave --mode out"
            )
        elif self.sink != "kafka":
            msg = (
                "--mode real-time needs --sink kafka, because it writes to no Delta table: add that, "
                "or leave --mode out"
            )
        elif self.trigger < SHORTEST_REAL_TIME_MS:
            msg = (
                f"--mode real-time needs a --trigger of 5s or more, not {format_duration(self.trigger)}: it is how "
                "long a batch lasts; write --trigger 5m, or leave --mode out"
            )
        elif self.from_sessions:
            msg = (
                "--mode real-time needs a checkpoint that begins empty: leave --from-sessions out, or leave --mode out"
            )
        if msg is not None:
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        if self.source == "files":
            if self.input is None:
                msg = "--source files needs --input: name the folder that holds pc_sessions and console_sessions"
                raise ValueError(msg)
            if self.sink == "kafka":
                msg = "--sink kafka needs --source kafka: add that and --bootstrap-servers, or leave it out"
                raise ValueError(msg)
            given = [f"--{name.replace('_', '-')}" for name in _KAFKA_ONLY if name in self.model_fields_set]
            if given:
                msg = f"{', '.join(given)} is for --source kafka: add that, or leave it out"
                raise ValueError(msg)
        else:
            if self.bootstrap_servers is None:
                msg = "--source kafka needs --bootstrap-servers: name the brokers, as in 127.0.0.1:9092"
                raise ValueError(msg)
            if self.input is not None:
                msg = "--source kafka takes no --input: leave it out, or give --source files"
                raise ValueError(msg)
        check_table_location(self.warehouse, self.catalog, self.schema_name)
        if self.device_groups is not None and self.expected_devices is not None:
            msg = "--expected-devices chooses the device groups: leave it or --device-groups out"
            raise ValueError(msg)
        return self

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that the job uses with `--source kafka`: those it reads, and the one that changes go to."""
        return (*STREAMS, *((self.output_topic,) if self.sink == "kafka" else ()))

    @property
    def kafka_options(self) -> dict[str, str]:
        """The values of `--kafka-option` by name; references to secrets are not resolved."""
        return parse_kafka_options(self.kafka_option)

    @property
    def metrics_at(self) -> tuple[str, int] | None:
        """Host and port of the metrics; None without `--metrics-port`."""
        return None if self.metrics_port is None else (self.metrics_host, self.metrics_port)

    @property
    def rules(self) -> Rules:
        return Rules(self.heartbeat, self.session_timeout, self.late_retention, self.max_sessions_per_device)
