"""Changes by way of the topic `output_sessions`: out as messages for live services, back as rows of `session_changes`."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sessionization.spark.offsets import begun, newest_begun
from sessionization.spark.tables import SESSION_CHANGES

OUTPUT_TOPIC = "output_sessions"
_LOOKED_AT = 100_000
"""How many of a partition's last records are enough for its last micro-batch, and for what other senders sent after it."""
_TIMES = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"}
_WHEN = ("change_date", "processed_at")
_SAID = [name for name in SESSION_CHANGES.column_names if name != "change_date"]


def publish(changes: DataFrame, options: Mapping[str, str]) -> None:
    """Send changes to the topic, and wait until the brokers have them; what a repeated micro-batch sends comes twice.

    Args:
        changes: rows of `session_changes`.
        options: of the Kafka client, the brokers among them.
    """
    messages(changes).write.format("kafka").options(**options).option("topic", OUTPUT_TOPIC).save()


def messages(changes: DataFrame) -> DataFrame:
    """Rows of `session_changes` as `key` (the device: its changes stay in order) and `value` (JSON, nulls left out)."""
    value = F.to_json(F.struct(*_SAID), _TIMES)
    return changes.select(F.col("device_id").alias("key"), value.alias("value"))


def changes(records: DataFrame, *beside: str) -> DataFrame:
    """Records of the topic as rows of `session_changes`; of one that is no change all that must not be null is null.

    Columns of the records that are named `beside` come before those.
    """
    fields = [field for field in SESSION_CHANGES.schema if field.name in _SAID]
    said = F.from_json(F.col("value").cast("string"), StructType(fields), _TIMES)
    rows = records.select(*beside, said.alias("said")).select(*beside, "said.*")
    return rows.withColumn("change_date", F.to_date("processed_at")).select(*beside, *SESSION_CHANGES.column_names)


def are_changes() -> Column:
    """Which rows of `changes` are changes: another sender's messages are none, and no table would take them."""
    is_change = F.lit(True)
    for column in SESSION_CHANGES.columns:
        if not column.nullable:
            is_change &= F.col(column.name).isNotNull()
    return is_change


def not_yet_in(table: DataFrame, changes: DataFrame) -> DataFrame:
    """Each of the changes once, and of them those that the table has not.

    A change is the same as another if all of it is: within a micro-batch of the stream no two are alike, and two micro-batches
    differ in `processed_at`. Of the table only the files of that time are read, however old and large it is.

    Args:
        table: `session_changes` as it is.
        changes: rows of `session_changes`, with or without columns beside those.
    """
    of = changes.agg(*(end(name).alias(f"{end.__name__}_{name}") for name in _WHEN for end in (F.min, F.max))).first()
    if of is None or of["min_processed_at"] is None:
        return changes
    is_of_then = F.lit(True)
    for name in _WHEN:
        is_of_then &= F.col(name).between(F.lit(of[f"min_{name}"]), F.lit(of[f"max_{name}"]))
    had = table.where(is_of_then).alias("had")
    new = changes.dropDuplicates().alias("new")
    is_same = F.lit(True)
    for name in SESSION_CHANGES.column_names:
        is_same &= F.col(f"new.{name}").eqNullSafe(F.col(f"had.{name}"))
    return new.join(had, is_same, "left_anti")


def not_landed(spark: SparkSession, table: DataFrame, options: Mapping[str, str], scratch: Path) -> int:
    """How many of the topic's partitions end with a micro-batch of which the table has not every change.

    A landing takes each partition in order: of which it has the last one whole, of that it has all. (Whole, for one that
    was cut off comes again in another order.) So little is read, however long the topic is.

    Args:
        spark: the session.
        table: `session_changes` as it is.
        options: of the Kafka client, the brokers among them.
        scratch: a folder that is of no other use, and is gone afterwards.
    """
    ends = _ends(spark, options, scratch)
    if not ends:
        return 0
    which = {
        "assign": list(map(int, ends)),
        "startingOffsets": {partition: max(0, end - _LOOKED_AT) for partition, end in ends.items()},
        "endingOffsets": ends,
    }
    those = {name: json.dumps({OUTPUT_TOPIC: said}) for name, said in which.items()}
    # Of some the first records may be gone, by the topic's retention.
    records = spark.read.format("kafka").options(**options, **those, failOnDataLoss="false").load()
    newest = F.max_by("processed_at", "offset").over(Window.partitionBy("partition"))
    rows = changes(records, "partition", "offset").where(are_changes()).withColumn("newest", newest)
    last = rows.where("processed_at = newest").drop("offset", "newest")
    return not_yet_in(table, last).select("partition").distinct().count()


def _ends(spark: SparkSession, options: Mapping[str, str], scratch: Path) -> dict[str, int]:
    """By partition the offset after its last record: how far a stream would read that reads nothing."""
    shutil.rmtree(scratch, ignore_errors=True)
    source = {"subscribe": OUTPUT_TOPIC, "startingOffsets": "earliest"}
    records = spark.readStream.format("kafka").options(**options, **source).load()
    try:
        records.writeStream.foreachBatch(_nothing).option("checkpointLocation", str(scratch)).trigger(
            availableNow=True
        ).start().awaitTermination()
        number = newest_begun(scratch)
        read: dict[str, dict[str, int]] = {} if number < 0 else begun(scratch, number).sources[0]
        return read.get(OUTPUT_TOPIC, {})
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _nothing(_records: DataFrame, _batch_id: int) -> None:
    """Leave a micro-batch unread."""
