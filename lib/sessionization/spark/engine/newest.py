"""The newest instant of rows."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sessionization.clock import wall_clock_ms
from sessionization.durations import DAY_MS


def newest_ms(rows: DataFrame, column: str) -> int | None:
    """Return the newest instant of a timestamp column, UTC milliseconds; None without one."""
    newest: int | None = rows.agg(F.unix_millis(F.max(column))).collect()[0][0]
    return newest


def newest_update_ms(sessions: DataFrame) -> int | None:
    """Return the newest `updated_at` in `sessions`; None without rows.

    Statistics let Delta skip the files without an update of the last day. All rows are read only if there was none, as
    after a day on which `rollup` was down.
    """
    since = F.timestamp_millis(F.lit(wall_clock_ms() - DAY_MS))
    recent = newest_ms(sessions.where(F.col("updated_at") >= since), "updated_at")
    return newest_ms(sessions, "updated_at") if recent is None else recent
