"""Measure how fast the job backfill reads an archive: `python -m tests.bench.backfill --messages 2000000`."""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from sessionization.spark.engine.session import spark_session
from sessionization.spark.tables.creation import create_tables
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import RAW_EVENTS

_ROOT = Path(__file__).parents[2]
_DAY_S = 86_400
_MESSAGES = """
SELECT 'pc_sessions' AS stream, CAST(NULL AS int) AS partition, CAST(NULL AS bigint) AS offset,
  CAST(NULL AS string) AS file, ingested_at, explode(array_repeat(CAST(text AS binary), copies)) AS value,
  to_date(ingested_at) AS ingest_date
FROM (
  SELECT at + INTERVAL 1 SECOND AS ingested_at, IF(pmod(xxhash64(id + 1), 100) < 2, 2, 1) AS copies,
    IF(pmod(xxhash64(id), 100) < 1, '{{broken', to_json(struct(
      session AS appSessionId, IF(id % 2 = 0, 'ApplicationSessionStart', 'ApplicationSessionEndBi') AS eventId,
      'device-' || device AS hostPcId, date_format(at, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'") AS timestamp
    ))) AS text
  FROM (
    SELECT *, timestamp_seconds({began_s} + session % 8 * 9000 + device % 9000 + id % 2 * {duration_s}) AS at
    FROM (SELECT id, id DIV 2 AS session, id DIV 16 AS device FROM range({messages}))
  )
)"""
"""Eight sessions a device, one each two and a half hours; two messages in a hundred come twice, one is broken."""


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
        create_tables(spark, location, owner="bench")
        location.append(_messages(spark, messages, duration_s), RAW_EVENTS)
        return location.read(spark.read, RAW_EVENTS).count()
    finally:
        spark.stop()


def _messages(spark: SparkSession, messages: int, duration_s: int) -> DataFrame:
    began_s = int(time.time()) // _DAY_S * _DAY_S - _DAY_S
    return spark.sql(_MESSAGES.format(messages=messages, duration_s=duration_s, began_s=began_s))


if __name__ == "__main__":
    sys.exit(main())
