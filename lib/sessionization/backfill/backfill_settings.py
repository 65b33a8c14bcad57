"""The settings of `jobs/backfill.py`: one field per option, all checked here."""

from datetime import date
from typing import Self

from pydantic import Field, model_validator
from pydantic.config import JsonDict

from sessionization.settings.state_settings import ArchiveSettings

_DAY_METAVAR: JsonDict = {"metavar": "YYYY-MM-DD"}


class BackfillSettings(ArchiveSettings):
    """Compute the sessions of some days again, from the archived messages in `raw_events`.

    The rows replace the table `sessions_backfill`. With --merge they are folded into `sessions` instead, and with
    --verify they are compared with `sessions` and not written. Without --checkpoints the rules are the default ones.
    The sessionize job may run, except with --merge.
    """

    first_day: date | None = Field(
        None,
        alias="from",
        description="first day of ingest (UTC); without it, the first that is archived",
        json_schema_extra=_DAY_METAVAR,
    )
    last_day: date | None = Field(
        None, alias="to", description="last day of ingest (UTC); without it, today", json_schema_extra=_DAY_METAVAR
    )
    verify: bool = Field(default=False, description="compare with sessions, list what differs, write nothing")
    merge: bool = Field(
        default=False, description="fold the rows into sessions; the sessionize job must be stopped gracefully"
    )

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if self.first_day is not None and self.last_day is not None and self.last_day < self.first_day:
            msg = f"--to {self.last_day} is before --from {self.first_day}: give the first day as --from"
            raise ValueError(msg)
        if self.verify and self.merge:
            msg = "--verify writes nothing and --merge does: give one of them"
            raise ValueError(msg)
        if self.merge:
            self.require_checkpoints("--merge changes folders, and the job must not run meanwhile")
        return self
