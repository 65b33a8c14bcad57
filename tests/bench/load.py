"""Loads for the operator alone, made by Spark itself: rows of `parse.EVENT_COLUMNS`."""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

HEARTBEATS_PER_EVENT = 16
"""Of the published original: 500,000 events and 8,000,000 heartbeats a minute."""
FILL_S = 60
_PARTITIONS = "2"


def starts(spark: SparkSession, per_batch: int, devices: int | None) -> DataFrame:
    """`per_batch` Starts in every micro-batch, each of another device, until there are so many devices."""
    made = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", per_batch)
    rows = (
        made.option("numPartitions", _PARTITIONS)
        .load()
        .where(F.lit(True) if devices is None else F.col("value") < devices)
    )
    # The source's own clock stands still at 1970: Starts are of now.
    now = F.current_timestamp()
    return _events(rows, now, F.col("value"), F.lit(0), F.lit(True))


def mix(spark: SparkSession, live: int, heartbeat_ms: int) -> DataFrame:
    """`live` devices start within the first minute; then each in turn ends and starts anew.

    Ends and Starts are balanced, so the number of live sessions stays. Ingest times are spread over the seconds, and the
    source gives a second's rows out when it is over: event to row holds half a second of waiting for that.
    """
    per_s = max(1, live * 1_000 // heartbeat_ms // HEARTBEATS_PER_EVENT)
    made = spark.readStream.format("rate").option("rowsPerSecond", per_s).option("numPartitions", _PARTITIONS).load()
    value, fill = F.col("value"), per_s * FILL_S
    starts_each = -(-live // fill)
    first = F.explode(F.sequence(value * starts_each, (value + 1) * starts_each - 1)).alias("device")
    filling = made.where(value < fill).select("timestamp", first).where(F.col("device") < live)
    turn = F.floor((value - fill) / 2)
    is_start = (value - fill) % 2 == 1
    held = _events(
        made.where(value >= fill),
        F.col("timestamp"),
        turn % live,
        F.floor(turn / live) + is_start.cast("long"),
        is_start,
    )
    return _events(filling, F.col("timestamp"), F.col("device"), F.lit(0), F.lit(True)).union(held)


def _events(rows: DataFrame, at: Column, device: Column, session_id: Column, is_start: Column) -> DataFrame:
    named = device.cast("string")
    return rows.select(
        F.concat(F.lit("device-"), named).alias("device_id"),
        session_id.cast("long").alias("session_id"),
        is_start.alias("is_start"),
        F.unix_millis(at).alias("event_ms"),
        F.lit(None).cast("long").alias("foreground_s"),
        F.concat(F.lit("account-"), named).alias("account_id"),
        F.lit("pc").alias("platform"),
        F.unix_millis(at).alias("ingested_ms"),
    )
