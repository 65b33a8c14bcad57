"""Brings tables of an earlier version into the form of this version."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from pyspark.sql import SparkSession

from sessionization.durations import DAY_MS
from sessionization.say import Say
from sessionization.spark.tables import rollup
from sessionization.spark.tables.conflicts import retry_on_conflict
from sessionization.spark.tables.location import TableLocation, quoted_text
from sessionization.spark.tables.schemas import (
    RETENTION_PROPERTIES,
    SESSIONS,
    TABLES,
    Table,
    retention_ms_of,
)

PART_CONSTRAINT = ("part_of_status", dict(SESSIONS.constraints)["part_of_status"])
LATE_ENDS_PROPERTY = ("sessionization.lateEnds", "reported")
_EARLIER_RETENTION_MS = 7 * DAY_MS
_FILES_RETENTION = RETENTION_PROPERTIES[1]
_PARTITIONS = 64
"""Each task sorts the rows of several days, and spills to disk what does not fit into memory."""


def upgrade_tables(spark: SparkSession, location: TableLocation, say: Say, tables: Sequence[Table] = TABLES) -> None:
    """Bring existing tables up to date, `sessions` among them, before this version reads new columns or writes rows.

    Changes nothing where this version wrote the tables.
    """
    with ThreadPoolExecutor(len(tables)) as pool:
        list(pool.map(partial(_add_columns, spark, location), tables))
    _upgrade_sessions(spark, location, say)


@retry_on_conflict
def _add_columns(spark: SparkSession, location: TableLocation, table: Table) -> None:
    """Add the columns that a table of an earlier version lacks, as its last ones; they are null in existing rows."""
    existing_columns = set(location.read(spark.read, table).columns)
    missing_columns = [
        column
        for column in table.columns
        if column.name not in existing_columns and column.name not in table.partitioned_by
    ]
    if missing_columns:
        definitions = ", ".join(
            f"{column.name} {column.type} COMMENT {quoted_text(column.comment)}" for column in missing_columns
        )
        spark.sql(f"ALTER TABLE {location.sql_name(table.name)} ADD COLUMNS ({definitions})")


def _upgrade_sessions(spark: SparkSession, location: TableLocation, say: Say) -> None:
    """Partition the table, update its late ends, and shorten its history, where an earlier version wrote it.

    Each step is one commit, and is done again if it was cut off. The job of an earlier version can no longer write a
    table that was upgraded: the constraint on `_part` refuses its rows.
    """
    properties = location.properties(spark, SESSIONS)
    if f"delta.constraints.{PART_CONSTRAINT[0]}" not in properties:
        _partition(spark, location, say)
    name, value = LATE_ENDS_PROPERTY
    if properties.get(name) != value:
        _mark_late_ends_reported(spark, location)
    as_created = [key for key in RETENTION_PROPERTIES if _is_as_created(properties, key)]
    if _FILES_RETENTION in as_created:  # otherwise Delta refuses a shorter log
        _shorten_history(spark, location, as_created)


def _is_as_created(properties: Mapping[str, str], key: str) -> bool:
    """Whether an earlier version set this retention; another one that `maintain --retention` set stays."""
    return retention_ms_of(properties, key) == _EARLIER_RETENTION_MS


@retry_on_conflict
def _partition(spark: SparkSession, location: TableLocation, say: Say) -> None:
    name, condition = PART_CONSTRAINT
    rows = location.read(spark.read, SESSIONS)
    if "_part" not in rows.columns:
        say("the table sessions is rewritten once, partitioned by day: that takes some seconds for a million sessions")
        location.overwrite(rollup.with_part(rows).repartition(_PARTITIONS, "_part"), SESSIONS)
    spark.sql(f"ALTER TABLE {location.sql_name(SESSIONS.name)} ADD CONSTRAINT {name} CHECK ({condition})")


@retry_on_conflict
def _mark_late_ends_reported(spark: SparkSession, location: TableLocation) -> None:
    """Update the rows that show a late End as orphaned, once; see `sql/tables/sessions.sql`."""
    is_late = "end_reason = 'orphaned' AND started_at IS NOT NULL"
    spark.sql(f"UPDATE {location.sql_name(SESSIONS.name)} SET end_reason = 'reported' WHERE {is_late}")
    spark.sql(location.set_properties_sql(SESSIONS, dict([LATE_ENDS_PROPERTY])))


@retry_on_conflict
def _shorten_history(spark: SparkSession, location: TableLocation, keys: Sequence[str]) -> None:
    wanted = dict(SESSIONS.properties)
    spark.sql(location.set_properties_sql(SESSIONS, {key: wanted[key] for key in keys}))
