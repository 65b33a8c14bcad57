"""From where a new checkpoint reads on, told by the tables and by a real broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.durations import DAY_MS
from sessionization.errors import ConfigurationError
from sessionization.local.broker import Broker
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.folder import Checkpoint, open_checkpoint
from sessionization.spark.checkpoint.pinned_settings import PinnedSettings
from sessionization.spark.input import kafka_source
from sessionization.spark.input.topic_offsets import Offsets
from sessionization.spark.job_context import JobContext
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import RAW_EVENTS
from sessionization.spark.warm_start.read_position import next_offsets
from tests.spark.test_topic import forget
from tests.spark.warehouse import empty_tables

NOW_MS = wall_clock_ms()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        broker.create_topics({"pc_sessions": 2, "console_sessions": 2}, message_timestamp_type="CreateTime")
        yield broker


class Start:
    """A warm start from that broker, with tables that are empty at first."""

    def __init__(self, spark: SparkSession, folder: Path, broker: Broker) -> None:
        self._spark, self._home, self._folder = spark, TableLocation(folder / "warehouse"), folder
        self._settings = SessionizeSettings(
            source="kafka", bootstrap_servers=broker.bootstrap_servers, from_sessions=True,
            warehouse=folder / "warehouse", checkpoints=folder / "checkpoints",
        )  # fmt: skip
        empty_tables(spark, self._home, owner="theirs")

    def archive(self, topic: str, partition: int, offset: int, ms: int = NOW_MS) -> None:
        where = f"'{topic}' AS stream, {partition} AS partition, {offset}L AS offset, CAST(NULL AS string) AS file"
        when = f"timestamp_millis({ms}) AS ingested_at, CAST('{{}}' AS binary) AS value"
        row = f"SELECT {where}, {when}, to_date(timestamp_millis({ms})) AS ingest_date"
        self._home.append(self._spark.sql(row), RAW_EVENTS)

    def forget(self, where: str) -> None:
        self._home.delta_table(self._spark, RAW_EVENTS).delete(where)

    def offsets(self) -> Offsets | None:
        return next_offsets(JobContext(self._spark, self._settings, self._checkpoint(), self._home))

    def read_from(self, starts: Offsets) -> list[bytes]:
        found: list[bytes] = []

        def keep(batch: DataFrame, _batch_id: int) -> None:
            found.extend(bytes(row.value) for row in batch.select("value").collect())

        records = kafka_source.kafka_messages(self._spark, self._settings, NOW_MS, None, starts)
        writer = records.writeStream.foreachBatch(keep).option("checkpointLocation", str(self._folder / "query"))
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(60)
        finally:
            query.stop()
        return found

    def _checkpoint(self) -> Checkpoint:
        settings = self._settings
        return open_checkpoint(
            settings.checkpoints, PinnedSettings.of(settings, str(self._home)), settings.rules, warm=True
        )


def test_a_warm_start_reads_on_where_the_tables_end(spark: SparkSession, tmp_path: Path, broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    def produce(value: bytes, topic: str, partition: int, ms: int = NOW_MS) -> None:
        producer.produce(topic, value, partition=partition, timestamp=ms)
        assert producer.flush(20) == 0

    for value in (b"pc-0", b"pc-1", b"pc-2"):
        produce(value, "pc_sessions", 0)
    for days, value in ((5, b"quiet-0"), (4, b"quiet-1")):
        produce(value, "console_sessions", 0, NOW_MS - days * DAY_MS)
        produce(value, "console_sessions", 1, NOW_MS - days * DAY_MS)
    start = Start(spark, tmp_path, broker)
    assert start.offsets() is None  # nothing of a topic was ever read, as where files were

    start.archive("pc_sessions", 0, 0)
    start.archive("pc_sessions", 0, 1)
    start.archive("console_sessions", 0, 0, NOW_MS - 5 * DAY_MS)
    # A partition that was quiet for days takes none of the others back; one that is not known begins when the table does.
    known = {"pc_sessions": {0: 2, 1: 0}, "console_sessions": {0: 1, 1: 0}}
    assert start.offsets() == known
    start.forget("stream = 'console_sessions'")
    assert start.offsets() == {"pc_sessions": {0: 2, 1: 0}, "console_sessions": {0: 2, 1: 2}}
    produce(b"new", "pc_sessions", 1)
    assert sorted(start.read_from(known)) == [b"new", b"pc-2", b"quiet-0", b"quiet-1", b"quiet-1"]

    for name in ("pc_sessions", "console_sessions"):  # all of it is taken, and then nothing is left in the topics
        forget(broker, name, to=-1)
    start.archive("pc_sessions", 0, 2)
    assert start.offsets() == {"pc_sessions": {0: 3, 1: 1}, "console_sessions": {0: 2, 1: 2}}


@pytest.mark.parametrize(("partition", "offset"), [(0, 10), (2, 0)])
def test_topics_that_do_not_reach_as_far_as_the_tables_are_refused(
    spark: SparkSession, tmp_path: Path, broker: Broker, partition: int, offset: int
) -> None:
    """They are other ones: what comes in them is new, whatever its offset, and would be passed over."""
    start = Start(spark, tmp_path, broker)
    start.archive("pc_sessions", partition, offset)
    with pytest.raises(
        ConfigurationError,
        match=f"partition {partition} of pc_sessions does not reach offset {offset}, of which raw_events",
    ):
        start.offsets()
