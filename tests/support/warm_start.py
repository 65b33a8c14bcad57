"""A warm start from a broker, with tables that are empty at first."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.folder import Checkpoint
from sessionization.spark.checkpoint.opening import open_checkpoint
from sessionization.spark.checkpoint.pinned_settings import PinnedSettings
from sessionization.spark.input import kafka_source
from sessionization.spark.input.topic_offsets import Offsets
from sessionization.spark.job_context import JobContext
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import RAW_EVENTS
from sessionization.spark.warm_start import read_position
from sessionization_laptop.broker import Broker
from tests.support.archived_messages import archive
from tests.support.settings import settings_of
from tests.support.warehouse import empty_tables

NOW_MS = wall_clock_ms()


class WarmStart:
    """A warm start from the broker, with tables that are empty at first."""

    def __init__(self, spark: SparkSession, folder: Path, broker: Broker) -> None:
        self._spark, self.location, self._folder = spark, TableLocation(folder / "warehouse"), folder
        self._settings = settings_of(SessionizeSettings,
            source="kafka", bootstrap_servers=broker.bootstrap_servers, from_sessions=True,
            warehouse=folder / "warehouse", checkpoints=folder / "checkpoints",
        )  # fmt: skip
        empty_tables(spark, self.location, owner="theirs")

    def archive(self, *messages: tuple[str, int, int, int]) -> None:
        """Append messages: each with its topic, partition, offset and ingest time."""
        archive(self._spark, self.location, *messages)

    def delete_rows(self, condition: str) -> None:
        self.location.delta_table(self._spark, RAW_EVENTS).delete(condition)

    def offsets(self) -> Offsets | None:
        return read_position.next_offsets(JobContext(self._spark, self._settings, self._checkpoint(), self.location))

    def read_from(self, starts: Offsets) -> list[bytes]:
        values: list[bytes] = []

        def collect_values(batch: DataFrame, _batch_id: int) -> None:
            values.extend(bytes(row.value) for row in batch.select("value").collect())

        records = kafka_source.kafka_messages(self._spark, self._settings, NOW_MS, None, starts)
        writer = records.writeStream.foreachBatch(collect_values).option(
            "checkpointLocation", str(self._folder / "query")
        )
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(60)
        finally:
            query.stop()
        return values

    def _checkpoint(self) -> Checkpoint:
        settings = self._settings
        return open_checkpoint(
            settings.state.checkpoints,
            PinnedSettings.of(settings, str(self.location)),
            settings.rules.of_sessions,
            warm=True,
        )
