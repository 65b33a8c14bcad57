"""The settings of `jobs/maintain.py`: one field an option, checked once, here."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from sessionization.durations import Duration
from sessionization.home import HomeSettings

_DAY_MS = 86_400_000
_SAFE_MS = 7 * _DAY_MS
_HOUR_MS = 3_600_000


class MaintainSettings(HomeSettings):
    """Compact the days that are over, and delete the files that no table refers to any more.

    With --input-retention it also deletes input files that the sessionize job is through with; their messages are in raw_events.
    Safe beside the running sessionize job where the tables are in a catalog. Where they are folders its checkpoint is
    held meanwhile, so that it cannot run.
    """

    checkpoints: Path | None = Field(
        None, description="the --checkpoints of the sessionize job; with --warehouse and --input-retention"
    )
    days: int = Field(3, ge=1, le=10_000, description="compact this many days before today, of tables kept by day")
    retention: Annotated[Duration, Field(ge=_SAFE_MS)] = Field(
        _SAFE_MS,
        description="delete unused files, and the tables' log, when older than this; a reader or a rollup that is further "
        "behind would miss them",
    )
    input_retention: Annotated[Duration, Field(ge=_HOUR_MS)] | None = Field(
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
