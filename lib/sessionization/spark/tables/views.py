"""Creates the views of `sessionization/sql/views`."""

from collections.abc import Iterable

from pyspark.sql import SparkSession

from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import (
    LAST_ACTIVE_COLUMN,
    QUERIED_TABLES,
    SESSION_CHANGES,
    SESSIONS,
    Table,
)
from sessionization.spark.tables.statements import fill_in, read_statement
from sessionization.spark.tables.view_sql import VIEWS, session_view_sql, stored_heartbeat_ms, view_values


def create_views(
    spark: SparkSession,
    location: TableLocation,
    names: Iterable[str] = VIEWS,
    tables: Iterable[Table] = QUERIED_TABLES,
) -> None:
    """Create or replace the views: in the catalog's schema, or for this Spark session where the tables are folders.

    Without a catalog, each of `tables` that is there also gets a session view, so that `SELECT * FROM sessions` works
    on a laptop.
    """
    if location.warehouse is not None:
        for name in (table.name for table in location.present(spark, tables)):
            spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS SELECT * FROM {location.sql_name(name)}")
    if not (names := tuple(names)):
        return
    heartbeat_ms, labels = stored_heartbeat_ms(location.properties(spark, SESSIONS)), location.labels(spark)
    has_activity = _has_activity(spark, location)
    for name in names:
        if location.warehouse is None:
            values = view_values(heartbeat_ms, labels, has_activity=has_activity)
            spark.sql(fill_in(read_statement("views", name), location.sql_name, **values))
        else:
            spark.sql(session_view_sql(name, location.sql_name, heartbeat_ms, labels, has_activity=has_activity))


def _has_activity(spark: SparkSession, location: TableLocation) -> bool:
    columns = spark.sql(f"SELECT * FROM {location.sql_name(SESSION_CHANGES.name)}").columns
    return LAST_ACTIVE_COLUMN.name in columns
