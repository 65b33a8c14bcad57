"""Measure how fast the job backfill reads an archive: `python -m tests.bench.backfill --messages 2000000`."""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.spark.engine.session import spark_session
from sessionization.spark.tables.creation import create_tables
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import RAW_EVENTS

_ROOT = Path(__file__).parents[2]
_SESSIONS_PER_DEVICE = 8
_EVERY_S = 9_000
_DAY_S = 86_400
_REPEATED_PERCENT, _BROKEN_PERCENT = 2, 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.backfill", description=__doc__)
    parser.add_argument("--messages", type=int, default=2_000_000, help="Starts and Ends, before those that come twice")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--minutes", type=int, default=20, help="how long a session is; above 150 the device's next one supersedes it"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="backfill-") as folder:
        warehouse = Path(folder, "warehouse")
        archived = _archive(warehouse, options.messages, options.minutes * 60)
        sys.stdout.write(f"{archived:,} messages in raw_events\n")
        for _ in range(options.repeats):
            began_s = time.monotonic()
            subprocess.run([sys.executable, "jobs/backfill.py", f"--warehouse={warehouse}"], cwd=_ROOT, check=True)
            took_s = time.monotonic() - began_s
            sys.stdout.write(f"{took_s:.1f} s, {archived / took_s:,.0f} messages/s, the start of Spark included\n")
            sys.stdout.flush()
    return 0


def _archive(warehouse: Path, messages: int, duration_s: int) -> int:
    """Write two days of messages into `raw_events`, some twice and some broken; returns their number."""
    spark = spark_session(warehouse.parent / "engine.log")
    try:
        location = TableLocation(warehouse)
        create_tables(spark, location, owner="bench", may_create=True)
        location.append(_messages(spark, messages, duration_s), RAW_EVENTS)
        return location.read(spark.read, RAW_EVENTS).count()
    finally:
        spark.stop()


def _messages(spark: SparkSession, messages: int, duration_s: int) -> DataFrame:
    number = F.col("id")
    session, is_start = F.floor(number / 2), number % 2 == 0
    device, turn = F.floor(session / _SESSIONS_PER_DEVICE), session % _SESSIONS_PER_DEVICE
    began_s = F.lit(int(time.time()) // _DAY_S * _DAY_S - _DAY_S) + turn * _EVERY_S + device % _EVERY_S
    at = F.timestamp_seconds(began_s + F.when(is_start, 0).otherwise(duration_s))
    message = F.struct(
        session.alias("appSessionId"),
        F.when(is_start, "ApplicationSessionStart").otherwise("ApplicationSessionEndBi").alias("eventId"),
        F.concat(F.lit("device-"), device.cast("string")).alias("hostPcId"),
        F.date_format(at, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'").alias("timestamp"),
    )
    text = F.when(_is_in_sample(number, _BROKEN_PERCENT), F.lit("{broken")).otherwise(F.to_json(message))
    copies = F.when(_is_in_sample(number + 1, _REPEATED_PERCENT), 2).otherwise(1)
    ingested_at = at + F.expr("INTERVAL 1 SECOND")
    return spark.range(messages).select(
        F.lit("pc_sessions").alias("stream"),
        F.lit(None).cast("int").alias("partition"),
        F.lit(None).cast("bigint").alias("offset"),
        F.lit(None).cast("string").alias("file"),
        ingested_at.alias("ingested_at"),
        F.explode(F.array_repeat(text.cast("binary"), copies)).alias("value"),
        F.to_date(ingested_at).alias("ingest_date"),
    )


def _is_in_sample(number: Column, percent: int) -> Column:
    return F.pmod(F.xxhash64(number), F.lit(100)) < percent


if __name__ == "__main__":
    sys.exit(main())
