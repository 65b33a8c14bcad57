"""Producers with transactions: what they take back is not read, and the markers that they leave are no messages."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from sessionization.job.metrics import backlog
from sessionization.ops.land_changes import Landing
from sessionization.settings.kafka_options import OUTPUT_TOPIC
from sessionization.spark.input import kafka_source
from sessionization.spark.operator.output_rows import OUTPUT_SCHEMA
from sessionization.spark.output import changes_topic
from sessionization.spark.output.sinks import to_session_changes
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES
from sessionization_laptop.broker import Broker
from tests.input.kafka_settings import settings
from tests.support.changes import a_change
from tests.support.default_streams import STREAMS
from tests.support.warehouse import empty_tables
from tests.support.warm_start import NOW_MS, WarmStart

pytestmark = pytest.mark.spark

Send = Callable[..., None]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "broker") as broker:
        broker.create_topics(dict.fromkeys((*STREAMS, OUTPUT_TOPIC), 1))
        yield broker


@pytest.fixture
def send(broker: Broker) -> Send:
    """Sends values to a topic in one transaction, and commits or aborts it."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "studio", "log_level": 0})
    producer.init_transactions(30)

    def send(topic: str, *values: bytes, commit: bool) -> None:
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(20) == 0
        (producer.commit_transaction if commit else producer.abort_transaction)(20)

    return send


def test_an_aborted_record_is_not_read_and_its_marker_is_no_backlog(
    spark: SparkSession, broker: Broker, send: Send, tmp_path: Path
) -> None:
    values: list[bytes] = []

    def collect_values(batch: DataFrame, _batch_id: int) -> None:
        values.extend(bytes(row.value) for row in batch.select("value").collect())

    read_settings = settings(broker.bootstrap_servers)
    writer = kafka_source.kafka_messages(spark, read_settings, 0, None).writeStream.foreachBatch(collect_values)
    send("pc_sessions", b"kept", commit=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.processAllAvailable()
    send("pc_sessions", b"taken back", commit=False)  # offsets 2 and 3, a marker
    query.processAllAvailable()
    progress = query.lastProgress
    query.stop()
    assert progress is not None
    assert json.loads(progress.sources[0].endOffset)["pc_sessions"] == {"0": 4}
    assert backlog(json.loads(progress.json)["sources"]) == 0
    assert values == [b"kept"]

    chosen = settings(broker.bootstrap_servers, kafka_option=("kafka.isolation.level=read_uncommitted",))
    assert kafka_source.client_options(spark, chosen)["kafka.isolation.level"] == "read_uncommitted"


def test_a_warm_start_continues_at_markers(spark: SparkSession, broker: Broker, send: Send, tmp_path: Path) -> None:
    send("pc_sessions", b"read", commit=True)  # offset 0, and a marker
    send("console_sessions", b"taken back", commit=False)
    warm_start = WarmStart(spark, tmp_path, broker)
    warm_start.archive(("pc_sessions", 0, 0, NOW_MS))
    starts = warm_start.offsets()
    assert starts is not None
    assert starts["pc_sessions"] == {0: 1}
    assert warm_start.read_from(starts) == []
    send("pc_sessions", b"new", commit=True)
    assert warm_start.read_from(starts) == [b"new"]


def test_an_aborted_change_does_not_land_and_is_not_waited_for(
    spark: SparkSession, broker: Broker, send: Send, tmp_path: Path
) -> None:
    def message(session_id: int) -> bytes:
        change = spark.createDataFrame([a_change(session_id=session_id)], OUTPUT_SCHEMA)
        [row] = changes_topic.to_messages(to_session_changes(change)).collect()
        return bytes(row.value, "utf-8")

    location = empty_tables(spark, TableLocation(tmp_path / "warehouse"), owner="ours")
    options: dict[str, Any] = kafka_source.client_options(spark, settings(broker.bootstrap_servers))
    send(OUTPUT_TOPIC, message(1), commit=True)
    send(OUTPUT_TOPIC, message(2), commit=False)
    query = Landing(location, options, OUTPUT_TOPIC, tmp_path / "landing", trigger_ms=1).start(spark)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    table = location.read(spark.read, SESSION_CHANGES)
    assert [row.session_id for row in table.collect()] == [1]
    scratch = tmp_path / "scratch"
    assert changes_topic.count_unlanded_partitions(spark, table, options, OUTPUT_TOPIC, scratch) == 0
