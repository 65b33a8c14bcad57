"""The settings of the jobs beside the stream: one field an option, checked once, here."""

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
from sessionization.settings.table_location_settings import TableLocationSettings

_SAFE_MS = 7 * DAY_MS


class MaintainSettings(TableLocationSettings):
    """Compact the days that are over, and delete the files that no table refers to any more.

    With --input-retention it also deletes input files that the sessionize job is through with; their messages are in raw_events.
    Safe beside the running sessionize job where the tables are in a catalog. Where they are folders its checkpoint is
    held meanwhile, so that it cannot run, nor land_changes.
    """

    checkpoints: Path | None = Field(
        None, description="the --checkpoints of the sessionize job: what its queries have not read is kept"
    )
    days: int = Field(3, ge=1, le=10_000, description="compact this many days before today, of tables kept by day")
    retention: Annotated[Duration, Field(ge=_SAFE_MS)] = Field(
        _SAFE_MS,
        description="delete unused files, and the tables' log, when older than this; a reader that is further behind would "
        "miss them. With --checkpoints what rollup has not read is kept, however old",
    )
    input_retention: Annotated[Duration, Field(ge=HOUR_MS)] | None = Field(
        None,
        description="delete input files older than this that both queries are through with; without it, none",
    )

    @model_validator(mode="after")
    def _have_the_checkpoints_they_need(self) -> Self:
        if self.warehouse is not None and self.checkpoints is None:
            msg = "--warehouse needs --checkpoints: the job must not run while folders are changed"
            raise ValueError(msg)
        if self.input_retention is not None and self.checkpoints is None:
            msg = "--input-retention needs --checkpoints: they tell which input files the job is through with"
            raise ValueError(msg)
        return self


class InspectSettings(BaseModel):
    """Say what the sessionize job remembers, and check that it is as it must be; exit code 1 if it is not.

    Reads the state after the last micro-batch that is done, and changes nothing: the job may run meanwhile.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    checkpoints: Path = Field(description="the --checkpoints of the sessionize job")
    device: str | None = Field(None, min_length=1, description="a device to show entry by entry")
    fullest: int = Field(5, ge=0, le=1_000, description="how many of the devices with the most entries to show")


class EraseSettings(TableLocationSettings):
    """Delete what is known of one or more accounts from all tables, and print a receipt.

    The sessionize job must be stopped gracefully, for what it has not finished would come back, and land_changes too. Files
    that hold the rows go with the next VACUUM after the tables' retention (the job maintain); what the sessionize job
    remembers of the account goes as it runs on. docs/runbook.md has all of it.
    """

    account: tuple[str, ...] = Field(
        (),
        description="account to erase; may be given several times",
        json_schema_extra={"metavar": "ACCOUNT", "repeatable": True},
    )
    checkpoints: Path | None = Field(
        None,
        description="the --checkpoints of the sessionize job, to see that it is through and what it remembers; with --warehouse",
    )
    receipt_key_file: Path | None = Field(
        None,
        description="file with a secret key of at least 16 bytes: the receipt then has each account's HMAC-SHA-256; "
        "without it, nothing of the accounts",
    )

    @model_validator(mode="after")
    def _accounts_are_no_separators(self) -> Self:
        for account in self.account:
            if not any(character.isalnum() for character in account):
                msg = f"--account {account!r} has no letter or digit: give one account, without commas around it"
                raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _have_the_checkpoints_they_need(self) -> Self:
        if self.warehouse is not None and self.checkpoints is None:
            msg = "--warehouse needs --checkpoints: the job must not run while folders are changed"
            raise ValueError(msg)
        return self


class RescaleSettings(BaseModel):
    """Spread the state of a stopped sessionize job over another number of partitions; its next start goes on with them.

    Sessions, timers and invariants are compared before and after. Copy the folder of the checkpoints first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    checkpoints: Path = Field(description="the --checkpoints of the sessionize job")
    partitions: int = Field(
        ge=1,
        le=10_000,
        description="how many state partitions there are to be: one to three for each core that the stream has",
    )


class LandChangesSettings(TableLocationSettings):
    """Bring what the sessionize job with --sink kafka sends to its topic into session_changes, each change once.

    It runs beside that job, until SIGTERM or Ctrl-C, and goes on where it was when it is started again.
    """

    bootstrap_servers: str | None = Field(
        None,
        description="brokers of that topic, separated by commas",
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
    checkpoints: Path = Field(description="a folder of this job's own, not that of the sessionize job")
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
        """What `--kafka-option` says, by name; references to secrets are still references."""
        return parse_kafka_options(self.kafka_option)
