"""The location of the tables for a notebook, and their plain names for SQL."""

from pydantic import Field
from pyspark.sql import SparkSession

from sessionization.errors import ConfigurationError
from sessionization.event_map.model import EventMap
from sessionization.event_map.reading import DEFAULT, read_event_map
from sessionization.hadoop_path import AnyPath
from sessionization.settings.section import EVENTS, EVENTS_METAVAR
from sessionization.settings.state_settings import CheckpointSettings
from sessionization.settings.table_location_settings import TableLocationSettings
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.metric_views import create_metric_views
from sessionization.spark.tables.schemas import PLAYER_TABLES, REQUIRED_TABLES
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


class ArchivedTablesSettings(TablesSettings):
    """The same, and what the archived messages mean."""

    events: str = Field(DEFAULT, description=EVENTS, json_schema_extra=EVENTS_METAVAR)

    @property
    def event_map(self) -> EventMap:
        """What the messages mean; raises `ConfigurationError` where there is no such map, or it has a mistake."""
        return read_event_map(self.events)


def use_tables(spark: SparkSession, settings: TableLocationSettings) -> None:
    """Make every table and view available under its plain name, such as `sessions`, in SQL and for the pictures.

    Raises `ConfigurationError` where a table does not exist yet.
    """
    location = TableLocation.of(settings.tables)
    location.require(spark, REQUIRED_TABLES)
    if location.warehouse is not None:
        create_views(spark, location)
        create_metric_views(spark, location, print)
        return
    spark.catalog.setCurrentCatalog(str(location.catalog))
    spark.catalog.setCurrentDatabase(str(location.schema))


def use_player_tables(spark: SparkSession, settings: TableLocationSettings) -> None:
    """As `use_tables`, with the tables of the job players.

    Raises `ConfigurationError` where a table does not exist yet.
    """
    use_tables(spark, settings)
    location = TableLocation.of(settings.tables)
    if missing := location.missing(spark, PLAYER_TABLES):
        msg = f"{location} does not hold {', '.join(missing)}: run the job players first"
        raise ConfigurationError(msg)
