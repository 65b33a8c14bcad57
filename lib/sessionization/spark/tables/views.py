"""Creates the views of `sessionization/sql/views`."""

from collections.abc import Callable, Iterable, Sequence

from pyspark.sql import SparkSession

from sessionization.durations import HOUR_MS
from sessionization.event_map.model import TITLE
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import (
    HEARTBEAT_PROPERTY,
    LAST_ACTIVE_COLUMN,
    PLAYER_TABLES,
    SESSION_CHANGES,
    SESSION_PREDICTIONS,
    SESSIONS,
    TABLES,
)
from sessionization.spark.tables.statements import fill_in, names_of, read_statement

VIEWS = names_of("views")
_SLOWEST_BATCH_MS = 10 * 60_000
_UNKNOWN_HEARTBEAT_MS = HOUR_MS
"""The interval that is assumed for tables whose job has not stored it yet."""


def create_views(spark: SparkSession, location: TableLocation, names: Iterable[str] = VIEWS) -> None:
    """Create or replace the views: in the catalog's schema, or for this Spark session where the tables are folders.

    Without a catalog, each table also gets a session view, so that `SELECT * FROM sessions` works on a laptop;
    the tables of other jobs too, where they are there.
    """
    heartbeat_ms, labels = _stored_heartbeat_ms(spark, location), location.labels(spark)
    has_activity = _has_activity(spark, location)
    if location.warehouse is None:
        values = _values(heartbeat_ms, labels, has_activity=has_activity)
        for name in names:
            spark.sql(fill_in(read_statement("views", name), location.sql_name, **values))
        return
    for name in (table.name for table in location.present(spark, (*TABLES, SESSION_PREDICTIONS, *PLAYER_TABLES))):
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS SELECT * FROM {location.sql_name(name)}")
    for name in names:
        spark.sql(session_view_sql(name, location.sql_name, heartbeat_ms, labels, has_activity=has_activity))


def session_view_sql(
    name: str,
    sql_name: Callable[[str], str] = str,
    heartbeat_ms: int = _UNKNOWN_HEARTBEAT_MS,
    labels: Sequence[str] = (),
    *,
    has_activity: bool = False,
) -> str:
    """The statement that creates a view for one Spark session alone, over the tables that `sql_name` names.

    `has_activity`: whether these have the columns for Activities.
    """
    statement = read_statement("views", name).replace(f"VIEW ${{schema}}.{name}", f"TEMPORARY VIEW {name}")
    return fill_in(statement, sql_name, **_values(heartbeat_ms, labels, has_activity=has_activity))


def title_sql(labels: Sequence[str]) -> str:
    """The column `title` of tables with these label columns, or, where they lack it, a null."""
    return TITLE if TITLE in labels else "CAST(NULL AS string)"


def _values(heartbeat_ms: int, labels: Sequence[str], *, has_activity: bool) -> dict[str, object]:
    """The values of the placeholders in views of tables with these label columns."""
    return {
        "heartbeat_window_s": _heartbeat_window_s(heartbeat_ms),
        "labels": "".join(f", `{name}`" for name in labels),
        "title": title_sql(labels),
        "last_active_at": LAST_ACTIVE_COLUMN.name if has_activity else "CAST(NULL AS timestamp)",
        "implied_starts": "implied_starts" if has_activity else "CAST(NULL AS bigint)",
    }


def _has_activity(spark: SparkSession, location: TableLocation) -> bool:
    columns = spark.sql(f"SELECT * FROM {location.sql_name(SESSION_CHANGES.name)}").columns
    return LAST_ACTIVE_COLUMN.name in columns


def _stored_heartbeat_ms(spark: SparkSession, location: TableLocation) -> int:
    stored = location.properties(spark, SESSIONS).get(HEARTBEAT_PROPERTY, "")
    return int(stored) if stored.isdigit() else _UNKNOWN_HEARTBEAT_MS


def _heartbeat_window_s(heartbeat_ms: int) -> int:
    """How long before the newest heartbeat every live session has had one, in whole seconds."""
    return -(-(4 * heartbeat_ms + _SLOWEST_BATCH_MS) // 1_000)
