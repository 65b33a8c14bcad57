"""Rows of `raw_events` of messages from Kafka, as the query `archive` appends them."""

from pyspark.sql import SparkSession

from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import RAW_EVENTS


def archive(spark: SparkSession, location: TableLocation, *messages: tuple[str, int, int, int]) -> None:
    """Append messages: each with its topic, partition, offset and ingest time."""
    position = "topic AS stream, partition, CAST(offset AS bigint) AS offset, CAST(NULL AS string) AS file"
    content = "timestamp_millis(ms) AS ingested_at, CAST('{}' AS binary) AS value"
    rows = ", ".join(map(str, messages))
    selected = (
        f"SELECT {position}, {content}, to_date(timestamp_millis(ms)) AS ingest_date"
        f" FROM VALUES {rows} AS messages(topic, partition, offset, ms)"
    )
    location.append(spark.sql(selected).coalesce(1), RAW_EVENTS)
