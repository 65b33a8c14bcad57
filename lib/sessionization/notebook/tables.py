"""Where a notebook finds the tables, and that SQL finds them by their plain names."""

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pyspark.sql import SparkSession

from sessionization.errors import ConfigurationError
from sessionization.spark.table_home import TableHome
from sessionization.spark.tables import TABLES
from sessionization.spark.views import create_views


class TablesSettings(BaseModel):
    """Where the tables are, and what to look at in them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    warehouse: Path | None = Field(None, description="folder of the Delta tables, on a laptop")
    catalog: str | None = Field(None, description="Unity Catalog catalog of the tables, on Databricks")
    schema_name: str | None = Field(None, alias="schema", description="schema of the tables in --catalog")
    checkpoints: Path | None = Field(
        None, description="the --checkpoints of the sessionize job, to look into its state"
    )
    device: str | None = Field(None, description="device to look at; without it, one that has much to show")

    @model_validator(mode="after")
    def _have_one_home(self) -> Self:
        if (self.warehouse is None) == (self.catalog is None):
            msg = "the tables need one home: set the widgets catalog and schema, or on a laptop warehouse"
            raise ValueError(msg)
        if (self.catalog is None) != (self.schema_name is None):
            msg = "catalog and schema go together: set both, or neither"
            raise ValueError(msg)
        return self

    @property
    def home(self) -> TableHome:
        return TableHome(self.warehouse, self.catalog, self.schema_name)

    @property
    def state_folder(self) -> Path:
        """Raises `ConfigurationError` where no checkpoints are given."""
        if self.checkpoints is None:
            msg = "the state needs the widget checkpoints: name the folder that the sessionize job was given"
            raise ConfigurationError(msg)
        return self.checkpoints


def use_tables(spark: SparkSession, settings: TablesSettings) -> None:
    """Let `sessions`, `live_sessions` and all others be found by their plain names, in SQL and by the pictures.

    Raises `ConfigurationError` where they are not there yet.
    """
    home = settings.home
    missing = [table.name for table in TABLES if not home.exists(spark, table)]
    if missing:
        msg = f"{home} does not hold {', '.join(missing)}: name the home of the sessionize job's tables, or start it first"
        raise ConfigurationError(msg)
    if home.warehouse is not None:
        create_views(spark, home)
        return
    spark.sql(f"USE CATALOG `{home.catalog}`")
    spark.sql(f"USE SCHEMA `{home.schema}`")
