"""The options of a job that is none, with a field of every kind."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sessionization.durations import Duration


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Options(BaseModel):
    """Do a thing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    output: Path = Field(description="where to write", json_schema_extra={"metavar": "DIR"})
    heartbeat: Annotated[Duration, Field(ge=1)] = Field(30_000, description="how often")
    run_for: Duration | None = Field(None, description="how long")
    max_things: int | None = Field(None, ge=1, le=9, description="how many")
    share: float = Field(0.5, ge=0, le=1, allow_inf_nan=False, description="how much: 100% is 1")
    source: Literal["files", "kafka"] = Field("files", description="from where")
    colour: Colour = Field(Colour.RED, description="which")
    kafka_option: tuple[str, ...] = Field((), description="options", json_schema_extra={"repeatable": True})
    schema_name: str | None = Field(None, alias="schema", description="in which schema")
    dry: bool = Field(default=False, description="only look")
    fast: bool = Field(default=True, description="do not wait")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.dry and self.schema_name:
            msg = "--dry and --schema contradict each other: leave one out"
            raise ValueError(msg)
        return self
