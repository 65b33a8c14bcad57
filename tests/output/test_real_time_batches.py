"""The query in Spark's own Real-Time Mode, without the operator, which runs in that mode on Databricks only."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.input.kafka_source import client_options
from sessionization.spark.input.parse import EventTimeLimits, parse, valid_events
from sessionization.spark.input.source import read_messages
from sessionization.spark.operator.output_rows import OUTPUT_SCHEMA
from sessionization.spark.output import changes_topic, real_time
from sessionization.streams import PC_STREAM, STREAMS
from sessionization_laptop.broker import Broker
from tests.support.settings import settings_of
from tests.support.stream_job import message
from tests.support.topics import Topics
from tests.support.waiting import wait_for

pytestmark = pytest.mark.spark

TOPIC = "changes-of.a_target"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        broker.create_topics(dict.fromkeys((*STREAMS, TOPIC), 1))
        yield broker.bootstrap_servers


def stateless_changes(events: DataFrame) -> DataFrame:
    """Replaces the operator, with its columns: every Start is a change, an End is only counted."""
    values = {name: F.col(name) for name in events.columns} | {
        "change": F.when(F.col("is_start"), "started"), "revision": F.lit(0), "duration_ms": F.lit(0),
        "started_ms": F.col("event_ms"), "processed_ms": F.col("ingested_ms"),
    }  # fmt: skip
    columns = (values.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in OUTPUT_SCHEMA)
    return events.select(*columns)


def test_changes_reach_the_topic_before_their_batch_ends(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    settings = settings_of(SessionizeSettings,
        source="kafka", bootstrap_servers=servers, sink="kafka", mode="real-time", trigger="10m",
        output_topic=TOPIC, warehouse=tmp_path / "w", checkpoints=tmp_path / "c",
    )  # fmt: skip
    limits = EventTimeLimits(settings.rules.max_clock_skew_ms, settings.rules.max_event_age_ms)
    events = valid_events(parse(read_messages(spark, settings, created_ms=0, max_offsets=None), limits))
    brokers = client_options(spark, settings)
    writer = real_time.topic_writer(stateless_changes(events), brokers, settings.output_topic, settings.pace.trigger_ms)
    producer = Producer({"bootstrap.servers": servers})
    sent = Topics(servers, 1, (TOPIC,))

    query = writer.option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        for number, device in enumerate(("d1", "ü")):
            for event in ("Start", "EndBi"):
                producer.produce(PC_STREAM, json.dumps(message(number, event, device)))
            producer.produce(PC_STREAM, b"{broken")
            producer.flush()
            wait_for(
                lambda: sent.ends()[TOPIC, 0] > number or not query.isActive,  # noqa: B023 - called at once
                "the change",
            )
        assert query.exception() is None
        assert query.lastProgress is None, "no batch has ended"
        assert sent.ends() == {(TOPIC, 0): 2}
    finally:
        query.stop()
    records = spark.read.format("kafka").options(**brokers).option("subscribe", TOPIC).load()
    rows = changes_topic.from_records(records).collect()
    assert {(row.device_id, row.session_id, row.platform, row.change) for row in rows} == {
        ("d1", 0, "pc", "started"), ("ü", 1, "pc", "started"),
    }  # fmt: skip
    assert all(row.started_at == row.event_at <= row.processed_at for row in rows)
