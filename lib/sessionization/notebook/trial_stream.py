"""A trial of the stream: its own table location, messages written by hand, and the job's notebook over them."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from pydantic import Field
from pyspark.sql import DataFrame, SparkSession

from sessionization.command_line.widgets import JOB_RUN_ID
from sessionization.files import write_atomically
from sessionization.notebook.handmade_messages import Message
from sessionization.settings.table_location_settings import TableLocationSettings
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES, Table
from sessionization.streams import PC_STREAM

HEARTBEAT = "2s"


class TrialSettings(TableLocationSettings):
    """Where to try the stream, and what was deployed. The trial makes a schema of its own, and drops it."""

    folder: Path = Field(description="folder for the trial's messages and checkpoints, on a volume")
    reader: str | None = Field(None, description="who may read the tables, and not write them")

    @property
    def deployed(self) -> TableLocation:
        """The location of the tables that the deployed job writes."""
        return TableLocation.of(self.tables)


@dataclass
class TrialStream:
    """One trial; call `begin` before it and `end` after it."""

    spark: SparkSession
    settings: TrialSettings
    _name: str = field(default_factory=lambda: uuid4().hex[:8])
    _files: int = 0

    @property
    def folder(self) -> Path:
        return self.settings.folder / f"trial-{self._name}"

    @property
    def location(self) -> TableLocation:
        deployed = self.settings.deployed
        if deployed.warehouse is not None:
            return TableLocation(self.folder / "warehouse")
        return TableLocation(None, deployed.catalog, f"{deployed.schema}_trial_{self._name}")

    def begin(self) -> None:
        (self.folder / "input" / PC_STREAM).mkdir(parents=True)
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
        write_atomically(self.folder / "input" / PC_STREAM / f"{self._files}.json", lines)

    def run(self, run_notebook: Callable[[str, int, Mapping[str, str]], object], notebook: str, run_for: str) -> None:
        """Run the job's notebook like a task, on the trial's tables; `run_notebook` is `dbutils.notebook.run`."""
        location = self.location
        location_widgets = (
            {"warehouse": str(location.warehouse)}
            if location.warehouse is not None
            else {"catalog": str(location.catalog), "schema": str(location.schema)}
        )
        widgets = {
            "input": str(self.folder / "input"),
            "checkpoints": str(self.folder / "checkpoints"),
            "heartbeat": HEARTBEAT,
            "mlflow": "off",
            "run-for": run_for,
            JOB_RUN_ID: "trial",
        }
        run_notebook(notebook, 1_800, location_widgets | widgets)

    def read(self, table: Table) -> DataFrame:
        return self.location.read(self.spark.read, table)

    def changes(self) -> DataFrame:
        """Read all changes except heartbeats, because time alone adds those."""
        return self.read(SESSION_CHANGES).where("change != 'heartbeat'")


def write_privileges(spark: SparkSession, location: TableLocation, principal: str) -> list[str]:
    """List the privileges of a principal on the tables beyond reading; a reader should have none.

    The list is empty for a warehouse folder, because the file system grants rights there. It is empty for the user of
    this session too: in the target `dev` one person runs the jobs and reads the tables.
    """
    if location.catalog is None or principal == spark.sql("SELECT current_user()").collect()[0][0]:
        return []
    rows = spark.sql(f"SHOW GRANTS `{principal}` ON SCHEMA `{location.catalog}`.`{location.schema}`").collect()
    reading = {
        "SELECT",
        "USE SCHEMA",
        "USE_SCHEMA",
        "USE CATALOG",
        "USE_CATALOG",
        "BROWSE",
        "READ VOLUME",
        "READ_VOLUME",
    }
    return sorted({str(row.ActionType) for row in rows} - reading)


def may_read(spark: SparkSession, location: TableLocation, principal: str) -> bool:
    """Check that a principal is granted to read the tables; for a warehouse folder, that it exists."""
    if location.catalog is None:
        assert location.warehouse is not None
        return location.warehouse.is_dir()
    rows = spark.sql(f"SHOW GRANTS `{principal}` ON SCHEMA `{location.catalog}`.`{location.schema}`").collect()
    return any(str(row.ActionType) == "SELECT" for row in rows)
