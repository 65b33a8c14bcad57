"""The newest instant of rows."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def newest_ms(rows: DataFrame, column: str) -> int | None:
    """Return the newest instant of a timestamp column, UTC milliseconds; None without one."""
    newest: int | None = rows.agg(F.unix_millis(F.max(column))).collect()[0][0]
    return newest
