"""Deletes old entries of Delta's logs of tables in folders, every few minutes.

On a local disk and on HDFS each commit lists the whole log. Delta itself deletes an entry only after the midnight (UTC)
that follows its retention, and a job that commits every second adds 170,000 entries a day. docs/performance.md has the
cost of an entry.
"""

import logging
from collections.abc import Iterable

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.durations import HOUR_MS, MINUTE_MS
from sessionization.hadoop_path import AnyPath
from sessionization.private_delta import clean_up_log
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES, Table

_log = logging.getLogger(__name__)

FOLDER_LOG_RETENTION_MS = HOUR_MS
"""How long a folder's log stays: the most that a reader of a table as a stream may be behind."""


def delete_old_log_entries(
    spark: SparkSession, location: TableLocation, tables: Iterable[Table], first_unread: int | None
) -> None:
    """Delete the entries older than `FOLDER_LOG_RETENTION_MS` that no later checkpoint of the log needs.

    Does nothing for tables in a catalog, whose storage lists a log from a given entry. A failure is logged; the next
    call tries again.

    Args:
        spark: the session.
        location: where the tables are.
        tables: the tables whose logs are cleaned.
        first_unread: the first version of `session_changes` that the rollup may still read; None leaves its log alone.
    """
    if location.warehouse is None:
        return
    for table in tables:
        folder = location.folder_of(table.name)
        try:
            retention_ms: int | None = FOLDER_LOG_RETENTION_MS
            if table is SESSION_CHANGES:
                retention_ms = _retention_from_version(folder / "_delta_log", first_unread)
            if retention_ms is not None:
                clean_up_log(spark, str(folder), retention_ms)
        except (PySparkException, Py4JError, OSError, TypeError) as error:  # TypeError: a Delta without this class
            _log.warning("the log of %s was not cleaned up: %s", table.name, root_cause(str(error)))
            return


def _retention_from_version(log: AnyPath, version: int | None) -> int | None:
    """A retention that covers a version and the checkpoint of the log before it; None where there is no such one."""
    if version is None:
        return None
    checkpoints = {int(file.name.partition(".")[0]): file for file in log.glob("*.checkpoint*.parquet")}
    before = [known for known in checkpoints if known <= version]
    if not before:
        return None
    age_ms = wall_clock_ms() - checkpoints[max(before)].stat().st_mtime_ns // 1_000_000
    return max(FOLDER_LOG_RETENTION_MS, age_ms + MINUTE_MS)
