"""Brings a table `sessions` of an earlier version into the form of this version."""

from pyspark.sql import SparkSession

from sessionization.say import Say
from sessionization.spark.tables import rollup
from sessionization.spark.tables.conflicts import retry_on_conflict
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import LATE_ENDS_PROPERTY, PART_CONSTRAINT, SESSIONS

_PARTITIONS = 64
"""Each task sorts the rows of several days, and spills to disk what does not fit into memory."""


def upgrade_sessions(spark: SparkSession, location: TableLocation, say: Say) -> None:
    """Partition the table and update its late ends, where an earlier version wrote it.

    Each step is one commit, and is done again if it was cut off. The job of an earlier version can no longer write a
    table that was upgraded: the constraint on `_part` refuses its rows.
    """
    _partition(spark, location, say)
    _mark_late_ends_reported(spark, location)


@retry_on_conflict
def _partition(spark: SparkSession, location: TableLocation, say: Say) -> None:
    name, condition = PART_CONSTRAINT
    if f"delta.constraints.{name}" in location.properties(spark, SESSIONS):
        return
    rows = location.read(spark.read, SESSIONS)
    if "_part" not in rows.columns:
        say("the table sessions is rewritten once, partitioned by day: that takes some seconds for a million sessions")
        location.overwrite(rollup.with_part(rows).repartition(_PARTITIONS, "_part"), SESSIONS)
    spark.sql(f"ALTER TABLE {location.sql_name(SESSIONS.name)} ADD CONSTRAINT {name} CHECK ({condition})")


@retry_on_conflict
def _mark_late_ends_reported(spark: SparkSession, location: TableLocation) -> None:
    """Update the rows that show a late End as orphaned, once; see `schemas.LATE_ENDS_PROPERTY`."""
    name, value = LATE_ENDS_PROPERTY
    if location.properties(spark, SESSIONS).get(name) != value:
        is_late = "end_reason = 'orphaned' AND started_at IS NOT NULL"
        location.delta_table(spark, SESSIONS).update(is_late, {"end_reason": "'reported'"})
        spark.sql(f"ALTER TABLE {location.sql_name(SESSIONS.name)} SET TBLPROPERTIES ('{name}' = '{value}')")
