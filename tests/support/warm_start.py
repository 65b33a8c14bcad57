"""Warm starts: the context of a job that begins with the sessions of tables, and what a start from a broker reads."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.opening import open_checkpoint
from sessionization.spark.checkpoint.pinned_settings import PinnedSettings
from sessionization.spark.input import kafka_source
from sessionization.spark.input.topic_offsets import Offsets
from sessionization.spark.job_context import JobContext
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import RAW_EVENTS
from sessionization.spark.warm_start import read_position
from sessionization_laptop.broker import Broker
from tests.support.settings import settings_of
from tests.support.warehouse import empty_tables

NOW_MS = wall_clock_ms()


def warm_context(spark: SparkSession, location: TableLocation, checkpoints: Path, **options: object) -> JobContext:
    """A job that begins a checkpoint with the sessions of the tables."""
    settings = settings_of(
        SessionizeSettings, warehouse=location.warehouse, checkpoints=checkpoints, from_sessions=True, **options
    )
    pinned = PinnedSettings.of(settings, str(location))
    return JobContext(
        spark, settings, open_checkpoint(checkpoints, pinned, settings.rules.of_sessions, warm=True), location
    )


def archive(spark: SparkSession, location: TableLocation, *messages: tuple[str, int, int, int]) -> None:
    """Append messages as the query `archive` does: each with its topic, partition, offset and ingest time."""
    position = "topic AS stream, partition, CAST(offset AS bigint) AS offset, CAST(NULL AS string) AS file"
    content = "timestamp_millis(ms) AS ingested_at, CAST('{}' AS binary) AS value"
    rows = ", ".join(map(str, messages))
    selected = (
        f"SELECT {position}, {content}, to_date(timestamp_millis(ms)) AS ingest_date"
        f" FROM VALUES {rows} AS messages(topic, partition, offset, ms)"
    )
    location.append(spark.sql(selected).coalesce(1), RAW_EVENTS)


class WarmStart:
    """A warm start from the broker, with tables that are empty at first."""

    def __init__(self, spark: SparkSession, folder: Path, broker: Broker) -> None:
        self.location = empty_tables(spark, TableLocation(folder / "warehouse"), owner="theirs")
        kafka = {"source": "kafka", "bootstrap_servers": broker.bootstrap_servers}
        self._spark, self._folder = spark, folder
        self._job = warm_context(spark, self.location, folder / "checkpoints", **kafka)

    def archive(self, *messages: tuple[str, int, int, int]) -> None:
        archive(self._spark, self.location, *messages)

    def delete_rows(self, condition: str) -> None:
        self.location.delta_table(self._spark, RAW_EVENTS).delete(condition)

    def offsets(self) -> Offsets | None:
        return read_position.next_offsets(self._job)

    def read_from(self, starts: Offsets) -> list[bytes]:
        values: list[bytes] = []

        def collect_values(batch: DataFrame, _batch_id: int) -> None:
            values.extend(bytes(row.value) for row in batch.select("value").collect())

        records = kafka_source.kafka_messages(self._spark, self._job.settings, NOW_MS, None, starts)
        writer = records.writeStream.foreachBatch(collect_values).option(
            "checkpointLocation", str(self._folder / "query")
        )
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(60)
        finally:
            query.stop()
        return values
