"""The state of a stopped job's operator, read from the checkpoint without the library."""

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import min_by

Entry = tuple[str, int, str]
"""Device, session, and `live`, `closed` or `pending_end`."""


def entries_and_timers(
    spark: SparkSession, checkpoints: Path | str, session_id_type: str = "bigint"
) -> tuple[list[Entry], list[tuple[str, int]]]:
    """The entries after the last committed micro-batch, and the timers by grouping key (without groups: the device).

    `checkpoints` is a folder or a URI.
    """
    # The state reader needs a part of the engine that only streaming starts.
    _ = spark.streams.active
    reader = spark.read.format("statestore").option("path", f"{checkpoints}/sessionize")
    entries = reader.option("stateVarName", "sessions").load()
    if "bucket" in entries.schema["user_map_key"].dataType.names:
        devices = (
            "explode(from_json(user_map_value.devices, 'map<string, array<array<string>>>')) AS (device_id, sessions)"
        )
        entries = entries.selectExpr("user_map_key.bucket", devices)
        # The recent entry, in the lowest bucket, is the valid one; it is null if the device left the state.
        entries = entries.groupBy("device_id").agg(min_by("sessions", "bucket").alias("sessions"))
        entries = entries.selectExpr("device_id", "explode(sessions) AS session")
        entries = entries.selectExpr("device_id", f"CAST(session[0] AS {session_id_type})", "session[1]")
    else:
        entries = entries.selectExpr("key.grouping_key", "user_map_key.session_id", "user_map_value.status")
    reader = spark.read.format("statestore").option("path", f"{checkpoints}/sessionize")
    timers = reader.option("readRegisteredTimers", "true").load()
    timers = timers.selectExpr("key.grouping_key", "expiration_timestamp_ms")
    return [tuple(row) for row in entries.collect()], [tuple(row) for row in timers.collect()]


def late_timers(timers: list[tuple[str, int]], needed: dict[str, int]) -> list[tuple[str, int]]:
    """The keys that need a timer (by the oracle), and have none at that instant or earlier."""
    first_ms: dict[str, int] = {}
    for key, timer_ms in timers:
        first_ms[key] = min(timer_ms, first_ms.get(key, timer_ms))
    return [(key, timer_ms) for key, timer_ms in needed.items() if first_ms.get(key, timer_ms + 1) > timer_ms]
