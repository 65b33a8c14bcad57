"""Changes by way of a topic, by default `output_sessions`: out as messages for live services, back as rows of `session_changes`."""

import json
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sessionization.spark.input.topic_offsets import read_topic_range
from sessionization.spark.tables.schemas import SESSION_CHANGES

_LOOKED_AT = 100_000
"""How many of a partition's last records are enough for its last micro-batch, and for what other senders sent after it."""
_TIMES = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"}
_WHEN = ("change_date", "processed_at")
_SAID = [name for name in SESSION_CHANGES.column_names if name != "change_date"]


def publish(changes: DataFrame, options: Mapping[str, str], output_topic: str) -> None:
    """Send changes to the topic, and wait until the brokers have them; what a repeated micro-batch sends comes twice.

    Args:
        changes: rows of `session_changes`.
        options: of the Kafka client, the brokers among them.
        output_topic: the topic's name.
    """
    to_messages(changes).write.format("kafka").options(**options).option("topic", output_topic).save()


def to_messages(changes: DataFrame) -> DataFrame:
    """Rows of `session_changes` as `key` (the device: its changes stay in order) and `value` (JSON, nulls left out)."""
    value = F.to_json(F.struct(*_SAID), _TIMES)
    return changes.select(F.col("device_id").alias("key"), value.alias("value"))


def from_records(records: DataFrame, *beside: str) -> DataFrame:
    """Records of the topic as rows of `session_changes`; of one that is no change all that must not be null is null.

    Columns of the records that are named `beside` come before those.
    """
    fields = [field for field in SESSION_CHANGES.schema if field.name in _SAID]
    said = F.from_json(F.col("value").cast("string"), StructType(fields), _TIMES)
    rows = records.select(*beside, said.alias("said")).select(*beside, "said.*")
    return rows.withColumn("change_date", F.to_date("processed_at")).select(*beside, *SESSION_CHANGES.column_names)


def is_change() -> Column:
    """Which rows of `from_records` are changes, true or false: what is none another sender sent, and the table would refuse it."""
    fits = F.lit(True)
    for column in SESSION_CHANGES.columns:
        if not column.nullable:
            fits &= F.col(column.name).isNotNull()
    for _name, condition in SESSION_CHANGES.constraints:
        fits &= F.coalesce(F.expr(condition), F.lit(False))
    return fits


def missing_from(table: DataFrame, changes: DataFrame) -> DataFrame:
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


def count_unlanded_partitions(
    spark: SparkSession,
    table: DataFrame,
    options: Mapping[str, str],
    output_topic: str,
    scratch: Path,
) -> int:
    """How many of the topic's partitions end with a micro-batch of which the table has not every change.

    A landing takes each partition in order: of which it has the last one whole, of that it has all. (Whole, for one that
    was cut off comes again in another order.) So little is read, however long the topic is.

    Args:
        spark: the session.
        table: `session_changes` as it is.
        options: of the Kafka client, the brokers among them.
        output_topic: the topic's name.
        scratch: a folder that is of no other use, and is gone afterwards.
    """
    ends = read_topic_range(spark, options, (output_topic,), 0, scratch).ends.get(output_topic)
    if not ends:
        return 0
    which = {
        "assign": list(ends),
        "startingOffsets": {partition: max(0, end - _LOOKED_AT) for partition, end in ends.items()},
        "endingOffsets": ends,
    }
    those = {name: json.dumps({output_topic: said}) for name, said in which.items()}
    # Of some the first records may be gone, by the topic's retention.
    records = spark.read.format("kafka").options(**options, **those, failOnDataLoss="false").load()
    newest = F.max_by("processed_at", "offset").over(Window.partitionBy("partition"))
    rows = from_records(records, "partition", "offset").where(is_change()).withColumn("newest", newest)
    last = rows.where("processed_at = newest").drop("offset", "newest")
    return missing_from(table, last).select("partition").distinct().count()
