"""The settings of `jobs/maintain.py`: one field an option, checked once, here."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sessionization.durations import Duration

_DAY_MS = 86_400_000
_SAFE_MS = 7 * _DAY_MS
_HOUR_MS = 3_600_000


class MaintainSettings(BaseModel):
    """Compact the days that are over, and delete the files that no table refers to any more.

    With --input-retention it also deletes input files that the sessionize job is through with; their messages are in raw_events.
    Safe beside the running sessionize job where the tables are in a catalog. Where they are folders its checkpoint is
    held meanwhile, so that it cannot run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    warehouse: Path | None = Field(None, description="folder of the Delta tables, on a laptop")
    checkpoints: Path | None = Field(
        None, description="the --checkpoints of the sessionize job; with --warehouse and --input-retention"
    )
    catalog: str | None = Field(None, description="Unity Catalog catalog of the tables, on Databricks")
    schema_name: str | None = Field(None, alias="schema", description="schema of the tables in --catalog")
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
    def _have_one_home(self) -> Self:
        if (self.warehouse is None) == (self.catalog is None):
            msg = "the tables need one home: give --warehouse DIR, or --catalog NAME and --schema NAME"
            raise ValueError(msg)
        if (self.catalog is None) != (self.schema_name is None):
            msg = "--catalog and --schema go together: give both, or neither"
            raise ValueError(msg)
        if self.warehouse is not None and self.checkpoints is None:
            msg = "--warehouse needs --checkpoints: the job must not run while folders are changed"
            raise ValueError(msg)
        if self.input_retention is not None and self.checkpoints is None:
            msg = "--input-retention needs --checkpoints: they tell which input files the job is through with"
            raise ValueError(msg)
        return self
