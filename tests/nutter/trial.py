# Databricks notebook source
# MAGIC %md
# MAGIC What the test notebooks of this folder share; they `%run` this notebook. It is not a test.
# MAGIC A trial of the stream: its own table location, messages written by hand, and the job's notebook over them.

# COMMAND ----------

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from pydantic import Field
from pyspark.sql import DataFrame, SparkSession

from sessionization.command_line.widgets import JOB_RUN_ID
from sessionization.event_map.reading import DEFAULT, package_map
from sessionization.files import write_atomically
from sessionization.notebook.tour import Message
from sessionization.settings.table_location_settings import TableLocationSettings
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES, Table

HEARTBEAT = "2s"
_STREAM = package_map(DEFAULT).stream_names[0]

# COMMAND ----------


class TrialSettings(TableLocationSettings):
    """Where to try the stream, and what was deployed. The trial makes a schema of its own, and drops it."""

    folder: Path = Field(description="folder for the trial's messages and checkpoints, on a volume")
    reader: str | None = Field(None, description="who may read the tables, and not write them")


@dataclass
class TrialStream:
    """One trial; call `begin` before it and `end` after it. `run_notebook` is `dbutils.notebook.run`."""

    spark: SparkSession
    run_notebook: object
    settings: TrialSettings
    _name: str = field(default_factory=lambda: uuid4().hex[:8])
    _files: int = 0

    @property
    def folder(self) -> Path:
        return self.settings.folder / f"trial-{self._name}"

    @property
    def location(self) -> TableLocation:
        deployed = TableLocation.of(self.settings.tables)
        if deployed.warehouse is not None:
            return TableLocation(self.folder / "warehouse")
        return TableLocation(None, deployed.catalog, f"{deployed.schema}_trial_{self._name}")

    def begin(self) -> None:
        (self.folder / "input" / _STREAM).mkdir(parents=True)
        if self.location.catalog is not None:
            self.spark.sql(f"CREATE SCHEMA `{self.location.catalog}`.`{self.location.schema}`")

    def end(self) -> None:
        if self.location.catalog is not None:
            self.spark.sql(f"DROP SCHEMA IF EXISTS `{self.location.catalog}`.`{self.location.schema}` CASCADE")
        shutil.rmtree(self.folder, ignore_errors=True)

    def send(self, *messages: Message) -> None:
        """Deliver messages of PCs as one file: written under a hidden name, then renamed, as a collector should."""
        self._files += 1
        lines = "".join(message.line() for message in messages)
        write_atomically(self.folder / "input" / _STREAM / f"{self._files}.json", lines)

    def run(self, run_for: str) -> None:
        """Run the job's notebook like a task, on the trial's tables."""
        place = self.location
        tables = (
            {"warehouse": str(place.warehouse)}
            if place.warehouse is not None
            else {"catalog": place.catalog, "schema": place.schema}
        )
        folders = {name: str(self.folder / name) for name in ("input", "checkpoints")}
        widgets = {"heartbeat": HEARTBEAT, "mlflow": "off", "run-for": run_for, JOB_RUN_ID: "trial"}
        self.run_notebook("../../notebooks/02_sessionize", 1_800, tables | folders | widgets)

    def read(self, table: Table) -> DataFrame:
        return self.location.read(self.spark.read, table)

    def changes(self) -> DataFrame:
        """Read all changes except heartbeats, because time alone adds those."""
        return self.read(SESSION_CHANGES).where("change != 'heartbeat'")
