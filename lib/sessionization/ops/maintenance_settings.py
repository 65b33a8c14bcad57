"""The settings of the jobs other than the stream: one field per option, all checked here."""

from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from sessionization.durations import DAY_MS, HOUR_MS, Duration, PositiveDuration
from sessionization.settings.sessionize_settings import KafkaSource, TopicSink
from sessionization.settings.state_settings import ArchiveSettings, CheckpointSettings, StateSettings
from sessionization.settings.table_location_settings import Location, TableLocationSettings, volume

UNUSED_FILES_RETENTION_MS = 2 * DAY_MS
"""How long files stay that a compaction has replaced. The log names each of them until then, at each checkpoint.

The tables are created with it, but those whose history nobody reads.
"""
_LEAST_MS = 7 * DAY_MS


class MaintainSettings(CheckpointSettings):
    """Delete old rows, compact past days, and delete the files that no table refers to any more.

    With --input-retention it also deletes input files that the sessionize job has read; their messages are in
    raw_events. Where the tables are in a catalog, the sessionize job may run at the same time. Where they are folders,
    this job locks the checkpoint: neither the sessionize job nor land_changes can run meanwhile.
    """

    own_section: ClassVar[str] = "maintain"

    days: int = Field(3, ge=1, le=10_000, description="compact this many days before today, of tables kept by day")
    retention_ms: Annotated[Duration, Field(ge=UNUSED_FILES_RETENTION_MS)] = Field(
        UNUSED_FILES_RETENTION_MS,
        description="delete unused files when older than this, and the tables' log when older than this and 7 days; "
        "a reader that is further behind would miss them. "
        "Given the job's checkpoints, what rollup has not read is kept, however old",
    )
    heartbeat_retention_ms: Annotated[Duration, Field(ge=DAY_MS)] = Field(
        7 * DAY_MS, description="delete heartbeats of days that are older than this from session_changes"
    )
    change_retention_ms: Annotated[Duration, Field(ge=_LEAST_MS)] = Field(
        400 * DAY_MS,
        description="delete rows of days that are older than this from session_changes, quarantine and stream_progress",
    )
    message_retention_ms: Annotated[Duration, Field(ge=_LEAST_MS)] = Field(
        30 * DAY_MS,
        description="delete messages of days that are older than this from raw_events; "
        "the job backfill needs them to compute a day again",
    )
    input_retention_ms: Annotated[Duration, Field(ge=HOUR_MS)] | None = Field(
        None,
        description="delete input files older than this that both sessionize and archive have fully read; "
        "without it, none",
    )

    @model_validator(mode="after")
    def _require_checkpoints(self) -> Self:
        self.require_checkpoints("the job must not run while folders are changed")
        return self


class InspectSettings(StateSettings):
    """Print a summary of the sessionize job's state.

    Reads the state after the last committed micro-batch, and changes nothing: the job may run meanwhile.
    """

    device: str | None = Field(None, min_length=1, description="a device to show entry by entry")
    fullest: int = Field(5, ge=0, le=1_000, description="how many of the devices with the most entries to show")


class EraseSettings(ArchiveSettings):
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

    @model_validator(mode="after")
    def _check_accounts(self) -> Self:
        for account in self.account:
            if not any(character.isalnum() for character in account):
                msg = f"--account {account!r} has no letter or digit: give one account, without commas around it"
                raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _require_checkpoints(self) -> Self:
        self.require_checkpoints("the job must not run while folders are changed")
        return self


class RescaleSettings(StateSettings):
    """Spread the state of a stopped sessionize job over another number of partitions, which its next start uses.

    The job compares sessions and timers before and after. Copy the folder of the checkpoints first.
    """

    partitions: int = Field(
        ge=1,
        le=10_000,
        description="how many state partitions there are to be: one to three for each core that the stream has",
    )


class LandChangesSettings(TableLocationSettings):
    """Write the changes that the sessionize job with --sink kafka sends to its topic into session_changes, each once.

    It runs next to that job until SIGTERM or Ctrl-C. After a restart it continues where it stopped.
    """

    own_section: ClassVar[str] = "land_changes"

    source: KafkaSource
    sink: TopicSink = TopicSink()
    checkpoints: Location = Field(
        description="a folder of this job's own, not that of the sessionize job; in a catalog by default in its volume "
        "checkpoints"
    )
    trigger_ms: PositiveDuration = Field(1_000, description="how often a micro-batch is planned")
    run_for_ms: PositiveDuration | None = Field(
        None, description="stop after this long; without it, run until SIGTERM or Ctrl-C"
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_in_checkpoints(cls, settings: Any) -> Any:
        folder = volume(settings.get("tables"), "checkpoints/land_changes") if isinstance(settings, dict) else None
        return settings if folder is None else {"checkpoints": folder} | settings

    @property
    def kafka(self) -> KafkaSource:
        """The brokers, as for the stream."""
        return self.source
