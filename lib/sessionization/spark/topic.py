"""Changes by way of the topic `output_sessions`: out as messages for live services, back as rows of `session_changes`."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sessionization.spark.tables import SESSION_CHANGES

OUTPUT_TOPIC = "output_sessions"
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


def changes(records: DataFrame) -> DataFrame:
    """Records of the topic as rows of `session_changes`; of one that is no change all that must not be null is null."""
    fields = [field for field in SESSION_CHANGES.schema if field.name in _SAID]
    said = F.from_json(F.col("value").cast("string"), StructType(fields), _TIMES)
    rows = records.select(said.alias("said")).select("said.*")
    return rows.withColumn("change_date", F.to_date("processed_at")).select(*SESSION_CHANGES.column_names)


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
        changes: rows of `session_changes`.
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
