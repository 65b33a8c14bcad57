"""Changes in a topic, by default `output_sessions`.

The job sends changes there as messages for live services; a landing turns them back into rows of `session_changes`.
"""

import json
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sessionization.hadoop_path import AnyPath
from sessionization.spark.input.topic_offsets import read_topic_range
from sessionization.spark.tables.schemas import ACTIVITY_CONSTRAINTS, SESSION_CHANGES

_RECORDS_CHECKED = 100_000
"""Enough of a partition's last records to cover its last micro-batch and later messages of other senders."""
_JSON_OPTIONS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"}
_TIME_COLUMNS = ("change_date", "processed_at")
_NOT_IN_A_MESSAGE = "change_date"


def publish(changes: DataFrame, options: Mapping[str, str], output_topic: str) -> None:
    """Send changes to the topic, and wait until the brokers have them; a repeated micro-batch sends them twice.

    Args:
        changes: rows of `session_changes`.
        options: of the Kafka client, including the brokers.
        output_topic: the topic's name.
    """
    to_messages(changes).write.format("kafka").options(**options).option("topic", output_topic).save()


def to_messages(changes: DataFrame) -> DataFrame:
    """Rows of `session_changes` as `key` (the device: its changes stay in order) and `value` (JSON without nulls)."""
    fields = (name for name in changes.columns if name != _NOT_IN_A_MESSAGE)
    value = F.to_json(F.struct(*fields), _JSON_OPTIONS)
    return changes.select(F.col("device_id").alias("key"), value.alias("value"))


def from_records(records: DataFrame, schema: StructType, *record_columns: str) -> DataFrame:
    """Records of the topic as rows of `session_changes`, after the `record_columns` of the records themselves.

    A record that is not a change has null in columns that must not be null. The table's `schema` says the type of
    session ids, and which label columns there are.
    """
    fields = StructType([field for field in schema if field.name != _NOT_IN_A_MESSAGE])
    message = F.from_json(F.col("value").cast("string"), fields, _JSON_OPTIONS)
    rows = records.select(*record_columns, message.alias("message")).select(*record_columns, "message.*")
    return rows.withColumn(_NOT_IN_A_MESSAGE, F.to_date("processed_at")).select(*record_columns, *schema.names)


def is_change() -> Column:
    """Marks each row of `from_records` as a change (true) or not (false).

    Other senders sent the records that are not changes; the table would refuse them.
    """
    is_valid = F.lit(True)
    for column in SESSION_CHANGES.columns:
        if not column.nullable:
            is_valid &= F.col(column.name).isNotNull()
    for name, condition in SESSION_CHANGES.constraints:
        is_valid &= F.coalesce(F.expr(ACTIVITY_CONSTRAINTS.get(name, condition)), F.lit(False))
    return is_valid


def changes_not_in_table(table: DataFrame, changes: DataFrame) -> DataFrame:
    """The changes that the table lacks, each once.

    Two changes are the same if all columns are equal. The stream never writes two equal changes in one
    micro-batch, and two micro-batches differ in `processed_at`. Reads only the table's files of that time, however
    old and large the table is.

    Args:
        table: `session_changes` in its present version.
        changes: rows of `session_changes`, with or without additional columns.
    """
    bounds = changes.agg(
        *(bound(name).alias(f"{bound.__name__}_{name}") for name in _TIME_COLUMNS for bound in (F.min, F.max))
    ).first()
    if bounds is None or bounds["min_processed_at"] is None:
        return changes
    is_in_bounds = F.lit(True)
    for name in _TIME_COLUMNS:
        is_in_bounds &= F.col(name).between(F.lit(bounds[f"min_{name}"]), F.lit(bounds[f"max_{name}"]))
    names = [name for name in table.columns if name in changes.columns]
    existing = table.where(is_in_bounds).select(*names).alias("existing")
    new = changes.dropDuplicates().alias("new")
    is_same = F.lit(True)
    for name in names:
        is_same &= F.col(f"new.`{name}`").eqNullSafe(F.col(f"existing.`{name}`"))
    return new.join(existing, is_same, "left_anti")


def count_unlanded_partitions(
    spark: SparkSession,
    table: DataFrame,
    options: Mapping[str, str],
    output_topic: str,
    scratch: AnyPath,
) -> int:
    """Counts the partitions of the topic whose last micro-batch is not entirely in the table.

    A landing takes each partition in order, so a partition whose last micro-batch is entirely in the table has
    landed in full. The check needs all of that micro-batch, because a replay of one that was cut off sends it in
    another order. It reads little, however long the topic is.

    Args:
        spark: the session.
        table: `session_changes` in its present version.
        options: of the Kafka client, including the brokers.
        output_topic: the topic's name.
        scratch: a folder for this call alone; removed afterwards.
    """
    ends = read_topic_range(spark, options, (output_topic,), 0, scratch).ends.get(output_topic)
    if not ends:
        return 0
    offsets = {
        "assign": list(ends),
        "startingOffsets": {partition: max(0, end - _RECORDS_CHECKED) for partition, end in ends.items()},
        "endingOffsets": ends,
    }
    selection = {name: json.dumps({output_topic: value}) for name, value in offsets.items()}
    # The topic's retention may have deleted the first of these records.
    records = spark.read.format("kafka").options(**options, **selection, failOnDataLoss="false").load()
    newest = F.max_by("processed_at", "offset").over(Window.partitionBy("partition"))
    rows = from_records(records, table.schema, "partition", "offset").where(is_change()).withColumn("_newest", newest)
    last = rows.where("processed_at = _newest").drop("offset", "_newest")
    return changes_not_in_table(table, last).select("partition").distinct().count()
