"""The settings of `jobs/serve_sessions.py`: one field per option, all checked here."""

from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from sessionization.durations import HOUR_MS, MINUTE_MS, Duration, PositiveDuration
from sessionization.settings.metrics_address import MetricsHost, MetricsPort
from sessionization.settings.sessionize_settings import KafkaSource, Sink, TablesSink, TopicSink
from sessionization.settings.table_location_settings import TableLocationSettings
from sessionization.settings.time_zone import TimeZone


class ServingSettings(TableLocationSettings):
    """Keep the live sessions, and who plays now, in Postgres, for programs that need an answer in milliseconds.

    It writes each change as it comes, from session_changes or, with --sink kafka, from the topic, and compares
    Postgres with the table sessions at its start and every hour. It runs next to the sessionize job until SIGTERM or
    Ctrl-C. A second run waits until the first one ends.
    """

    own_section: ClassVar[str] = "serving"

    source: KafkaSource | None = None
    sink: Sink = TablesSink()
    postgres: str = Field(
        description="the database, as libpq writes it, without a password: 'host=db.example dbname=games user=me'; "
        "off this machine its certificate is checked, unless sslmode says otherwise",
        json_schema_extra={"metavar": "CONNINFO"},
    )
    password: str | None = Field(
        None,
        description="env:NAME, secret:SCOPE/KEY, or call:MODULE:FUNCTION, a function that returns a password or token "
        "for each connection; without it, what libpq finds (~/.pgpass)",
        json_schema_extra={"metavar": "REFERENCE"},
    )
    postgres_schema: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")] = Field(
        "sessionization", description="schema in Postgres of the tables and views"
    )
    keep_ended_ms: Annotated[Duration, Field(ge=MINUTE_MS)] = Field(
        25 * HOUR_MS,
        description="keep ended sessions for this long; a day and an hour is enough for the play time of today",
    )
    check_every_ms: Annotated[Duration, Field(ge=MINUTE_MS)] = Field(
        HOUR_MS, description="how often Postgres is compared with the table sessions, and put right"
    )
    time_zone: TimeZone = Field(
        "UTC", description="zone in which today begins, as Europe/Berlin", json_schema_extra={"metavar": "ZONE"}
    )
    trigger_ms: PositiveDuration = Field(500, description="how often a micro-batch is planned")
    metrics_port: MetricsPort = None
    metrics_host: MetricsHost = "127.0.0.1"
    run_for_ms: PositiveDuration | None = Field(
        None, description="stop after this long; without it, run until SIGTERM or Ctrl-C"
    )

    @model_validator(mode="before")
    @classmethod
    def _pass_over_other_sources(cls, settings: Any) -> Any:
        """Leave out what a settings file says of a source that is not Kafka: it is the stream's."""
        source = settings.get("source") if isinstance(settings, dict) else None
        if isinstance(source, dict) and source.get("type", "kafka") != "kafka":
            return {name: section for name, section in settings.items() if name != "source"}
        return settings

    @model_validator(mode="after")
    def _require_brokers(self) -> Self:
        if isinstance(self.sink, TopicSink) and self.source is None:
            msg = "--sink kafka needs --source kafka: add that and --bootstrap-servers, or leave it out"
            raise ValueError(msg)
        return self

    @property
    def kafka(self) -> KafkaSource:
        """The brokers, with a sink of the kind kafka."""
        assert self.source is not None
        return self.source
