"""The location of the tables for a notebook, and their plain names for SQL."""

from pydantic import Field
from pyspark.sql import SparkSession

from sessionization.errors import ConfigurationError
from sessionization.hadoop_path import AnyPath
from sessionization.settings.state_settings import CheckpointSettings
from sessionization.settings.table_location_settings import TableLocationSettings
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import REQUIRED_TABLES
from sessionization.spark.tables.views import create_views


class TablesSettings(CheckpointSettings):
    """Where the tables are, and what to look at in them."""

    device: str | None = Field(None, description="device to look at; without it, one that has much to show")

    @property
    def state_folder(self) -> AnyPath:
        """The folder of checkpoints; raises `ConfigurationError` where none is given."""
        if self.state.checkpoints is None:
            msg = "the state needs the widget checkpoints: name the folder that the sessionize job was given"
            raise ConfigurationError(msg)
        return self.state.checkpoints


def use_tables(spark: SparkSession, settings: TableLocationSettings) -> None:
    """Make every table and view available under its plain name, such as `sessions`, in SQL and for the pictures.

    Raises `ConfigurationError` where a table does not exist yet.
    """
    location = TableLocation.of(settings.tables)
    location.require(spark, REQUIRED_TABLES)
    if location.warehouse is not None:
        create_views(spark, location)
        return
    spark.catalog.setCurrentCatalog(str(location.catalog))
    spark.catalog.setCurrentDatabase(str(location.schema))
