"""The settings of the stream, as its settings file has them: a class per section, checked once, here."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PrivateAttr, Tag, model_validator

from sessionization.durations import MINUTE_MS, Duration, DurationRange, PaceRange, PositiveDuration, format_duration
from sessionization.event_map.model import EventMap
from sessionization.event_map.reading import DEFAULT, read_event_map
from sessionization.hadoop_path import AnyPath
from sessionization.settings.kafka_options import OUTPUT_TOPIC, KafkaOptions, check_output_topic
from sessionization.settings.metrics_address import MetricsHost, MetricsPort
from sessionization.settings.rule_settings import RuleSettings
from sessionization.settings.section import EVENTS, EVENTS_METAVAR, Section, kind_by
from sessionization.settings.state_settings import checkpoints_in_volume
from sessionization.settings.table_location_settings import Location, TableLocationSettings, volume
from sessionization.settings.table_source_settings import TableSource

SHORTEST_REAL_TIME_MS = 5_000
"""Spark refuses a shorter batch in Real-Time Mode."""
LANDING_VOLUME = "landing"
"""Where the input is in a schema of a catalog, unless the settings say otherwise."""


class FilesSource(Section):
    """Messages in folders of JSON files."""

    type: Literal["files"] = Field("files", description="where device events come from")
    input: Location = Field(
        description="files: folder that holds a folder for each stream of the event map, a path or a URI; "
        "with tables in a catalog by default its volume landing"
    )


class KafkaSource(Section):
    """Messages in Kafka topics."""

    type: Literal["kafka"] = Field("kafka", description="where device events come from")
    bootstrap_servers: str = Field(
        description="kafka: brokers that have a topic for each stream of the event map, separated by commas",
        json_schema_extra={"metavar": "HOST:PORT"},
    )
    starting_offsets: Literal["earliest", "latest"] = Field(
        "earliest",
        description="kafka, table: where a new checkpoint begins; give the same at later starts, "
        "which go on from where the last one was",
    )
    max_offsets_per_trigger: int = Field(
        100_000, ge=1, description="kafka: how many messages a micro-batch of the sessionize query takes at most"
    )
    kafka_option: KafkaOptions = Field(
        {},
        description="kafka: options of the client by name, as in kafka.security.protocol=SASL_SSL; on a command line "
        "one each time; a secret is given as env:NAME or secret:SCOPE/KEY",
        json_schema_extra={"metavar": "KEY=VALUE", "repeatable": True},
    )
    accept_data_loss: bool = Field(
        default=False,
        description="kafka, table: go on where messages were deleted before they were read; for one start",
    )


class TablesSink(Section):
    """Changes go to session_changes."""

    type: Literal["tables"] = Field(
        "tables",
        description="where changes go: tables means session_changes, kafka (needs source kafka) means the output "
        "topic, from which the job land_changes copies them into session_changes",
    )


class TopicSink(Section):
    """Changes go to a topic on the brokers of the source."""

    type: Literal["kafka"] = Field("kafka", description=str(TablesSink.model_fields["type"].description))
    output_topic: Annotated[str, BeforeValidator(check_output_topic)] = Field(
        OUTPUT_TOPIC,
        description="with sink kafka: the topic that changes go to; no job with other tables may use it",
        json_schema_extra={"metavar": "TOPIC"},
    )


_MODE = (
    "how the sessionize query runs; real-time sends a change as soon as it is known, on Databricks, with source kafka "
    "and sink kafka"
)
_TRIGGER = (
    "how often the sessionize query plans a micro-batch; in mode real-time how long a batch lasts, 5s or more, by "
    "default 5m"
)


class _Pace(Section):
    archive_every: PaceRange = Field(
        DurationRange(5_000, 30_000),
        description="the time from one micro-batch of the archive query to the next, shortest and longest; "
        "between them it is ten times what a micro-batch takes: a tenth of the time; one duration is a fixed time",
    )
    rollup_every: PaceRange = Field(
        DurationRange(2_000, 10_000),
        description="as archive-every, for the rollup query, which uses three tenths of the time",
    )


class MicroBatchPace(_Pace):
    """How often the queries run."""

    mode: Literal["micro-batch"] = Field("micro-batch", description=_MODE)
    trigger_ms: PositiveDuration = Field(1_000, description=_TRIGGER)


class RealTimePace(_Pace):
    """Real-Time Mode: `trigger_ms` is how long a batch lasts."""

    mode: Literal["real-time"] = Field("real-time", description=_MODE)
    trigger_ms: Annotated[Duration, Field(ge=SHORTEST_REAL_TIME_MS)] = Field(5 * MINUTE_MS, description=_TRIGGER)


class StreamState(Section):
    """The checkpoints and the layout of the state."""

    checkpoints: Location = Field(
        description="folder of the queries' checkpoints, a path or a URI; keep it as long as the tables; "
        "with tables in a catalog by default in its volume checkpoints"
    )
    device_groups: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="group devices by hash into this many state keys; without it, one a device",
    )
    from_sessions: bool = Field(
        default=False,
        description="a new checkpoint takes over the tables of a checkpoint that was lost or had other device groups, "
        "and begins with their live sessions; an old checkpoint goes on as it is",
    )


class MonitoringSettings(Section):
    """What reports the runs."""

    mlflow: str = Field(
        "auto",
        min_length=1,
        description="MLflow experiment that stores one run per start; auto: sessionization, where MLflow "
        "is installed; off: none; on Databricks a path such as /Users/NAME/sessionization",
        json_schema_extra={"metavar": "EXPERIMENT"},
    )
    metrics_port: MetricsPort = None
    metrics_host: MetricsHost = "127.0.0.1"


Source = Annotated[
    Annotated[FilesSource, Tag("files")] | Annotated[KafkaSource, Tag("kafka")] | Annotated[TableSource, Tag("table")],
    kind_by("type", "files"),
]
Sink = Annotated[Annotated[TablesSink, Tag("tables")] | Annotated[TopicSink, Tag("kafka")], kind_by("type", "tables")]
Pace = Annotated[
    Annotated[MicroBatchPace, Tag("micro-batch")] | Annotated[RealTimePace, Tag("real-time")],
    kind_by("mode", "micro-batch"),
]


class SessionizeSettings(TableLocationSettings):
    """The input, the output and the session rules of the stream."""

    source: Source
    events: str = Field(DEFAULT, description=EVENTS, json_schema_extra=EVENTS_METAVAR)
    sink: Sink = TablesSink()
    rules: RuleSettings = RuleSettings()
    pace: Pace = MicroBatchPace()
    state: StreamState
    monitoring: MonitoringSettings = MonitoringSettings()
    run_for_ms: PositiveDuration | None = Field(
        None, description="stop gracefully after this long; without it, run until SIGTERM or Ctrl-C"
    )

    _event_map: EventMap = PrivateAttr()
    _fill_in_checkpoints = model_validator(mode="before")(checkpoints_in_volume)

    @model_validator(mode="before")
    @classmethod
    def _fill_in_input(cls, settings: Any) -> Any:
        folder = volume(settings.get("tables"), LANDING_VOLUME) if isinstance(settings, dict) else None
        if folder is None or not isinstance(source := settings.get("source", {}), dict):
            return settings
        is_files = source.get("type", "files") == "files"
        return settings | {"source": {"input": folder} | source} if is_files else settings

    @model_validator(mode="after")
    def _read_events(self) -> Self:
        self._event_map = read_event_map(self.events)
        return self

    @model_validator(mode="after")
    def _check_sections_together(self) -> Self:
        msg = None
        if isinstance(self.source, TableSource) and (stream := self.event_map.stream_without_table()):
            msg = f"--source table: streams.{stream} of --events {self.events} has no table: name it (table: NAME)"
        elif isinstance(self.sink, TopicSink) and self.sink.output_topic in self.event_map.streams:
            msg = f"--output-topic {self.sink.output_topic!r} is one of the inputs: give changes a topic of their own"
        elif isinstance(self.sink, TopicSink) and not isinstance(self.source, KafkaSource):
            msg = "--sink kafka needs --source kafka: add that and --bootstrap-servers, or leave it out"
        elif self.event_map.is_avro and not isinstance(self.source, KafkaSource):
            msg = f"--events {self.events}: value: avro needs --source kafka: add that and --bootstrap-servers"
        elif (silence_ms := self.rules.inactivity_timeout_ms) is not None and not self.event_map.kinds.activity:
            msg = (
                f"--inactivity-timeout: the map --events {self.events} has no kinds.activity, so every session would "
                "seem inactive: name the events that clients send while a session goes on, or leave the option out"
            )
        elif silence_ms is not None and self.rules.late_retention_ms < silence_ms:
            msg = (
                f"--late-retention {format_duration(self.rules.late_retention_ms)} is shorter than "
                f"--inactivity-timeout {format_duration(silence_ms)}: make it at least as long"
            )
        elif isinstance(self.pace, RealTimePace) and not isinstance(self.sink, TopicSink):
            msg = (
                "--mode real-time needs --source kafka and --sink kafka, because it reads no files and writes to no "
                "Delta table: add them and --bootstrap-servers, or leave --mode out"
            )
        elif isinstance(self.pace, RealTimePace) and self.state.from_sessions:
            msg = (
                "--mode real-time needs a checkpoint that begins empty: leave --from-sessions out, or leave --mode out"
            )
        if msg is not None:
            raise ValueError(msg)
        return self

    @property
    def event_map(self) -> EventMap:
        """What the messages mean."""
        return self._event_map

    @property
    def input_folder(self) -> AnyPath | None:
        """The folder of a source of files."""
        return self.source.input if isinstance(self.source, FilesSource) else None

    @property
    def kafka(self) -> KafkaSource:
        """The source, which is Kafka."""
        assert isinstance(self.source, KafkaSource)
        return self.source

    @property
    def archives(self) -> bool:
        """Whether `raw_events` gets every message."""
        return not (isinstance(self.source, TableSource) and self.source.archive == "off")

    @property
    def output_topic(self) -> str:
        """The topic that changes go to, or would go to with a sink of that kind."""
        return self.sink.output_topic if isinstance(self.sink, TopicSink) else OUTPUT_TOPIC

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that the job uses: those it reads, and the one that changes go to."""
        return (*self.event_map.stream_names, *((self.output_topic,) if isinstance(self.sink, TopicSink) else ()))
