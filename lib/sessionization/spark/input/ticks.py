"""A stream of one row a second, which makes Spark plan micro-batches and can wake the operator for given keys."""

import json
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.clock import wall_clock_ms
from sessionization.errors import CheckpointError
from sessionization.files import replace_verified
from sessionization.hadoop_path import AnyPath
from sessionization.spark.checkpoint.spark_logs import newest_started_batch, read_started_batch

_RATE_LOG_VERSION = "v1"


@dataclass(frozen=True, slots=True)
class WakeUp:
    """The grouping keys to wake, and the tick whose row wakes them.

    A tick belongs to exactly one micro-batch, also in a replay.
    """

    tick: int
    keys: tuple[str, ...]


def tick_stream(spark: SparkSession, wake: WakeUp | None = None) -> DataFrame:
    """Return an endless stream that makes Spark plan a micro-batch every second.

    Its rows are the keys of `wake`, mostly none. Without this stream Spark plans no micro-batch after a restart
    without new input, and no due timer fires until an event comes.

    Returns:
        The column `grouping_key`.
    """
    seconds = spark.readStream.format("rate").option("rowsPerSecond", "1").load()
    if wake is None:
        return seconds.where("false").select(F.lit(None).cast("string").alias("grouping_key"))
    keys = F.from_json(F.lit(json.dumps(wake.keys)), "array<string>")  # one literal: a column per key is a huge plan
    return seconds.where(F.col("value") == wake.tick).select(F.explode(keys).alias("grouping_key"))


def rewind_tick_source(query: AnyPath, now_ms: int | None = None) -> None:
    """Move the tick source's start time back if the clock went back so far that the query could not start.

    Spark counts ticks as the seconds since the source's first start. Under an earlier clock it would count fewer
    ticks than it has read, and refuse to start (`startSeconds > endSeconds`).

    Raises `CheckpointError` where the query's log or the source's file cannot be read or written.
    """
    tick = next_tick(query)
    now_ms = wall_clock_ms() if now_ms is None else now_ms
    for file in query.glob("sources/*/0"):
        try:
            version, _, origin_ms = file.read_text(encoding="utf-8").partition("\n")
            if version != _RATE_LOG_VERSION or not origin_ms.strip().isdigit():
                continue
            if int(origin_ms) + tick * 1_000 > now_ms:
                # The checksum goes first: Spark reads a file without one, but refuses a file with a wrong one.
                file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
                replace_verified(file, f"{version}\n{now_ms - (tick + 1) * 1_000}")
        except (OSError, UnicodeDecodeError) as error:
            msg = f"{file} cannot be put right after the clock went back ({error}): see to its permissions"
            raise CheckpointError(msg) from error


def next_tick(query: AnyPath) -> int:
    """Return the first tick that no micro-batch has read; only the tick source has a plain integer as its offset."""
    newest = newest_started_batch(query)
    if newest < 0:
        return 0
    return max((source for source in read_started_batch(query, newest).sources if isinstance(source, int)), default=0)
