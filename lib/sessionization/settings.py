"""The settings of `jobs/sessionize.py`: one field an option, checked once, here."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sessionization.core.state import Rules
from sessionization.durations import Duration

PositiveDuration = Annotated[Duration, Field(ge=1)]


class SessionizeSettings(BaseModel):
    """What to read, where to write, and the rules. Durations are milliseconds once read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Literal["files"] = Field("files", description="where device events come from")
    input: Path | None = Field(None, description="input folder; holds the folders pc_sessions and console_sessions")
    warehouse: Path | None = Field(None, description="folder of the Delta tables, on a laptop")
    catalog: str | None = Field(None, description="Unity Catalog catalog of the tables, on Databricks")
    schema_name: str | None = Field(None, alias="schema", description="schema of the tables in --catalog")
    checkpoints: Path = Field(description="folder of the queries' checkpoints; keep it as long as the tables")
    heartbeat: PositiveDuration = Field(30_000, description="how often a live session emits a heartbeat")
    session_timeout: PositiveDuration = Field(
        30 * 60_000, description="the longest a session stays live without an End (processing time)"
    )
    late_retention: PositiveDuration = Field(
        10 * 60_000, description="how long a closed session, or an End without Start, is remembered (processing time)"
    )
    max_sessions_per_device: int = Field(
        64, ge=1, le=10_000, description="bound on the remembered sessions of a device"
    )
    max_clock_skew: Duration = Field(
        10 * 60_000, ge=0, description="an event further ahead of its ingest time than this is quarantined"
    )
    max_event_age: Duration = Field(
        7 * 86_400_000, ge=0, description="an event older than this at its ingest time is quarantined"
    )
    trigger: PositiveDuration = Field(1_000, description="how often the sessionize query plans a micro-batch")
    device_groups: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="group devices by hash into this many state keys; without it, one a device",
    )
    run_for: PositiveDuration | None = Field(
        None, description="stop gracefully after this long; without it, run until SIGTERM or Ctrl-C"
    )

    @model_validator(mode="after")
    def _belong_together(self) -> Self:
        if self.source == "files" and self.input is None:
            msg = "--source files needs --input: name the folder that holds pc_sessions and console_sessions"
            raise ValueError(msg)
        if (self.warehouse is None) == (self.catalog is None):
            msg = "the tables need one home: give --warehouse DIR, or --catalog NAME and --schema NAME"
            raise ValueError(msg)
        if (self.catalog is None) != (self.schema_name is None):
            msg = "--catalog and --schema go together: give both, or neither"
            raise ValueError(msg)
        return self

    @property
    def rules(self) -> Rules:
        return Rules(self.heartbeat, self.session_timeout, self.late_retention, self.max_sessions_per_device)
