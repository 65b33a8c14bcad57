"""Spark's own Real-Time Mode: it takes our way out, and all of the query but the operator, which only Databricks takes."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.local.broker import Broker
from sessionization.settings import SessionizeSettings
from sessionization.spark import pipeline, real_time, topic
from sessionization.spark.checkpoint import SESSIONIZE, Fixed, open_checkpoint
from sessionization.spark.codec import OUTPUT_SCHEMA
from sessionization.spark.parse import STREAMS
from sessionization.spark.sinks import changes_of
from sessionization.spark.table_home import TableHome, create_tables
from tests.spark.test_stream import wait_for
from tests.spark.test_tables import NOW_MS, a_change

BATCH_MS = 600_000
"""Longer than the test: what it finds, no batch has ended for."""
OUTPUT = "operators_output"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        broker.create_topics(dict.fromkeys((*STREAMS, topic.OUTPUT_TOPIC, OUTPUT), 1))
        yield broker.bootstrap_servers


def of_topic(spark: SparkSession, servers: str) -> list[str]:
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic.OUTPUT_TOPIC}
    records = spark.read.format("kafka").options(**options).load()
    return sorted(map(str, topic.changes(records).collect()))


def test_changes_reach_the_topic_before_their_batch_ends(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    beat = {"change": "heartbeat", "beat": 3, "missed_beats": 0, "due_ms": NOW_MS - 7, "event_ms": None}
    counted = {"change": None, "duplicate_start": 1}
    rows = [a_change(), a_change(device_id="ü", **beat), a_change(**counted), a_change(session_id=2)]
    output = spark.createDataFrame(rows, OUTPUT_SCHEMA)
    brokers = {"kafka.bootstrap.servers": servers}

    def send(some: DataFrame) -> None:
        some.select(F.to_json(F.struct("*")).alias("value")).write.format("kafka").options(**brokers).option(
            "topic", OUTPUT
        ).save()

    read = spark.readStream.format("kafka").options(**brokers, subscribe=OUTPUT, startingOffsets="earliest").load()
    streamed = read.select(F.from_json(F.col("value").cast("string"), OUTPUT_SCHEMA).alias("row")).select("row.*")
    query = real_time.writer(streamed, brokers, BATCH_MS).option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        send(output)
        wait_for(lambda: len(of_topic(spark, servers)) >= 3 or not query.isActive, "the changes")
        assert query.exception() is None
        assert query.lastProgress is None
    finally:
        query.stop()
    assert of_topic(spark, servers) == sorted(map(str, changes_of(output).collect()))


def test_of_the_query_spark_itself_refuses_the_operator_alone(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    """Not its source, of which one that makes micro-batches come would be refused first, not its sink, trigger or output mode."""
    settings = SessionizeSettings(
        source="kafka", bootstrap_servers=servers, sink="kafka", mode="real-time", trigger="5s",
        warehouse=tmp_path / "w", checkpoints=tmp_path / "c",
    )  # fmt: skip
    home = TableHome(tmp_path / "w")
    checkpoint = open_checkpoint(settings.checkpoints, Fixed.of(settings, str(home)), settings.rules)
    create_tables(spark, home, owner=checkpoint.id, may_create=True)
    queries = pipeline.start(spark, settings, checkpoint, home, lambda _: None, lambda _: None, threading.Event())
    try:
        wait_for(lambda: not queries[SESSIONIZE].isActive, "the refusal")
        refusal = str(queries[SESSIONIZE].exception())
    finally:
        for query in queries.values():
            query.stop()
    assert "STREAMING_REAL_TIME_MODE.OPERATOR_OR_SINK_NOT_IN_ALLOWLIST" in refusal
    assert "TransformWithState" in refusal
