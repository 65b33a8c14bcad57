"""An evening that the real job streamed, and a backfill over its tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Row, SparkSession

from sessionization.backfill import backfill_job as backfill
from sessionization.backfill.backfill_settings import BackfillSettings
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSIONS
from tests.support.settings import settings_of


@dataclass
class StreamedEvening:
    """The tables that the real job made of an evening of few devices with random reports."""

    spark: SparkSession
    folder: Path
    maintained: Sequence[str] = ()
    """The lines that maintenance reported meanwhile."""

    def settings(self, **options: object) -> BackfillSettings:
        location = {"warehouse": self.folder / "warehouse", "checkpoints": self.folder / "checkpoints"}
        return settings_of(BackfillSettings, location | options)

    def backfill(self, **options: object) -> list[str]:
        lines: list[str] = []
        backfill.backfill(self.settings(**options), lines.append)
        return lines

    @property
    def location(self) -> TableLocation:
        return TableLocation(self.folder / "warehouse")

    @property
    def sessions(self) -> str:
        return self.location.sql_name(SESSIONS.name)

    def rows(self) -> list[Row]:
        """All rows of `sessions`, without `updated_at`."""
        return self.spark.sql(
            f"SELECT * EXCEPT (updated_at) FROM {self.sessions} ORDER BY device_id, session_id"
        ).collect()
