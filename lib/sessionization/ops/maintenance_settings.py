"""The settings of the jobs other than the stream: one field per option, all checked here."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from sessionization.durations import DAY_MS, HOUR_MS, Duration
from sessionization.settings.kafka_options import (
    OUTPUT_TOPIC,
    check_client_options,
    check_output_topic,
    parse_kafka_options,
)
from sessionization.settings.table_location_settings import Location, TableLocationSettings
from sessionization.spark.tables.schemas import UNUSED_FILES_RETENTION_MS

_LEAST_MS = 7 * DAY_MS


class MaintainSettings(TableLocationSettings):
    """Delete old rows, compact past days, and delete the files that no table refers to any more.

    With --input-retention it also deletes input files that the sessionize job has read; their messages are in
    raw_events. Where the tables are in a catalog, the sessionize job may run at the same time. Where they are folders,
    this job locks the checkpoint: neither the sessionize job nor land_changes can run meanwhile.
    """

    checkpoints: Location | None = Field(
        None, description="the --checkpoints of the sessionize job: what its queries have not read is kept"
    )
    days: int = Field(3, ge=1, le=10_000, description="compact this many days before today, of tables kept by day")
    retention: Annotated[Duration, Field(ge=UNUSED_FILES_RETENTION_MS)] = Field(
        UNUSED_FILES_RETENTION_MS,
        description="delete unused files when older than this, and the tables' log when older than this and 7 days; "
        "a reader that is further behind would miss them. "
        "Given the job's checkpoints, what rollup has not read is kept, however old",
    )
    heartbeat_retention: Annotated[Duration, Field(ge=DAY_MS)] = Field(
        7 * DAY_MS, description="delete heartbeats of days that are older than this from session_changes"
    )
    change_retention: Annotated[Duration, Field(ge=_LEAST_MS)] = Field(
        400 * DAY_MS,
        description="delete rows of days that are older than this from session_changes, quarantine and stream_progress",
    )
    message_retention: Annotated[Duration, Field(ge=_LEAST_MS)] = Field(
        30 * DAY_MS,
        description="delete messages of days that are older than this from raw_events; "
        "the job backfill needs them to compute a day again",
    )
    input_retention: Annotated[Duration, Field(ge=HOUR_MS)] | None = Field(
        None,
        description="delete input files older than this that both sessionize and archive have fully read; "
        "without it, none",
    )

    @model_validator(mode="after")
    def _require_checkpoints(self) -> Self:
        if self.warehouse is not None and self.checkpoints is None:
            msg = "--warehouse needs --checkpoints: the job must not run while folders are changed"
            raise ValueError(msg)
        if self.input_retention is not None and self.checkpoints is None:
            msg = "--input-retention needs --checkpoints: they show which input files the job has fully read"
            raise ValueError(msg)
        return self


class InspectSettings(BaseModel):
    """Print a summary of the sessionize job's state, and check its invariants; exit code 1 if one does not hold.

    Reads the state after the last committed micro-batch, and changes nothing: the job may run meanwhile.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    checkpoints: Location = Field(description="the --checkpoints of the sessionize job")
    device: str | None = Field(None, min_length=1, description="a device to show entry by entry")
    fullest: int = Field(5, ge=0, le=1_000, description="how many of the devices with the most entries to show")


class EraseSettings(TableLocationSettings):
    """Delete the data of one or more accounts from all tables, and print a receipt.

    Stop the sessionize job and land_changes gracefully first: unfinished work would write deleted rows again. Files
    that hold the rows go with the first VACUUM after the tables' retention (the job maintain). Entries in the
    sessionize job's state expire while it runs. docs/runbook.md has the details.
    """

    account: tuple[str, ...] = Field(
        (),
        description="account to erase; may be given several times",
        json_schema_extra={"metavar": "ACCOUNT", "repeatable": True},
    )
    checkpoints: Location | None = Field(
        None,
        description="the --checkpoints of the sessionize job, to see that it is through and what it remembers; "
        "with --warehouse",
    )
    receipt_key_file: Path | None = Field(
        None,
        description="file with a secret key of at least 16 bytes: the receipt then has each account's HMAC-SHA-256; "
        "without it, nothing of the accounts",
    )

    @model_validator(mode="after")
    def _check_accounts(self) -> Self:
        for account in self.account:
            if not any(character.isalnum() for character in account):
                msg = f"--account {account!r} has no letter or digit: give one account, without commas around it"
                raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _require_checkpoints(self) -> Self:
        if self.warehouse is not None and self.checkpoints is None:
            msg = "--warehouse needs --checkpoints: the job must not run while folders are changed"
            raise ValueError(msg)
        return self


class RescaleSettings(BaseModel):
    """Spread the state of a stopped sessionize job over another number of partitions, which its next start uses.

    The job compares sessions and timers, and checks the invariants, before and after. Copy the folder of the
    checkpoints first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    checkpoints: Location = Field(description="the --checkpoints of the sessionize job")
    partitions: int = Field(
        ge=1,
        le=10_000,
        description="how many state partitions there are to be: one to three for each core that the stream has",
    )


class LandChangesSettings(TableLocationSettings):
    """Write the changes that the sessionize job with --sink kafka sends to its topic into session_changes, each once.

    It runs next to that job until SIGTERM or Ctrl-C. After a restart it continues where it stopped.
    """

    bootstrap_servers: str | None = Field(
        None,
        description="brokers of the topic that the sessionize job writes changes to, separated by commas",
        json_schema_extra={"metavar": "HOST:PORT"},
    )
    output_topic: str = Field(
        OUTPUT_TOPIC,
        description="the --output-topic of the sessionize job, and of no other one",
        json_schema_extra={"metavar": "TOPIC"},
    )
    kafka_option: tuple[str, ...] = Field(
        (),
        description="option of the Kafka client, as in kafka.security.protocol=SASL_SSL; may be given several times; "
        "a secret is given as env:NAME or secret:SCOPE/KEY",
        json_schema_extra={"metavar": "KEY=VALUE", "repeatable": True},
    )
    checkpoints: Location = Field(description="a folder of this job's own, not that of the sessionize job")
    trigger: Annotated[Duration, Field(ge=1)] = Field(1_000, description="how often a micro-batch is planned")
    run_for: Annotated[Duration, Field(ge=1)] | None = Field(
        None, description="stop after this long; without it, run until SIGTERM or Ctrl-C"
    )

    @field_validator("kafka_option")
    @classmethod
    def _are_kafka_options(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        return check_client_options(texts)

    @field_validator("output_topic")
    @classmethod
    def _is_a_topic(cls, name: str) -> str:
        return check_output_topic(name)

    @property
    def kafka_options(self) -> dict[str, str]:
        """The values of `--kafka-option` by name; references to secrets are not resolved."""
        return parse_kafka_options(self.kafka_option)
