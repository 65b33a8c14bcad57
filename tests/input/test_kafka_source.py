"""The Kafka source against a real broker."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_END, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import TopicPartition
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.errors import ConfigurationError, StreamError
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.engine.error_text import remedy_for, root_cause
from sessionization.spark.input import kafka_source
from sessionization_laptop.broker import Broker
from tests.input.kafka_settings import settings
from tests.support.default_streams import STREAMS

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        broker.create_topics(dict.fromkeys(STREAMS, 1))
        yield broker


def test_existing_topics_are_accepted(spark: SparkSession, broker: Broker) -> None:
    kafka_source.check_topics(spark, settings(broker.bootstrap_servers), STREAMS)


def refusal_message(spark: SparkSession, servers: str, topics: tuple[str, ...] = STREAMS, **options: object) -> str:
    with pytest.raises(ConfigurationError) as error:
        kafka_source.check_topics(spark, settings(servers, **options), topics)
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(f"--bootstrap-servers {servers}")


def test_a_missing_topic_is_named(spark: SparkSession, broker: Broker) -> None:
    topics = ("pc_sessions", "nowhere")
    assert refusal_message(spark, broker.bootstrap_servers, topics).startswith(
        " has no topic nowhere now: if it was there"
    )


@pytest.mark.parametrize("servers", ["nowhere.invalid:9092", "nowhere"])
def test_an_invalid_broker_address_is_refused(spark: SparkSession, servers: str) -> None:
    assert refusal_message(spark, servers).startswith(" is no broker's address: write HOST:PORT")


def test_a_broker_that_does_not_answer_in_time_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_source, "_ANSWER_WITHIN_MS", 1_000)
    assert refusal_message(spark, "127.0.0.1:9").startswith(" does not answer within")


def test_an_invalid_client_option_is_refused(spark: SparkSession, broker: Broker) -> None:
    line = refusal_message(spark, broker.bootstrap_servers, kafka_option=("kafka.security.protocol=TELNET",))
    assert "Invalid value TELNET for configuration security.protocol" in line


Read = Callable[[SessionizeSettings, int], list[bytes]]


@pytest.fixture
def read(spark: SparkSession, tmp_path: Path) -> Read:
    def read(read_settings: SessionizeSettings, created_ms: int) -> list[bytes]:
        values: list[bytes] = []

        def collect_values(batch: DataFrame, _batch_id: int) -> None:
            try:
                values.extend(bytes(row.value) for row in batch.select("value").collect())
            except Exception as error:  # noqa: BLE001 - as a sink does
                raise StreamError(root_cause(str(error))) from None

        records = kafka_source.kafka_messages(spark, read_settings, created_ms, None)
        writer = records.writeStream.foreachBatch(collect_values).option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        )
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(60)
        finally:
            query.stop()
        return values

    return read


def produce(broker: Broker, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("console_sessions", value)
    assert producer.flush(20) == 0


def test_latest_begins_at_the_time_when_the_checkpoint_was_created(broker: Broker, read: Read) -> None:
    """The start of the query itself does not matter: queries that start one after the other must read the same."""
    produce(broker, b"early")
    created_ms = wall_clock_ms() + kafka_source.CLOCKS_DIFFER_MS + 1
    while wall_clock_ms() <= created_ms - kafka_source.CLOCKS_DIFFER_MS:
        pass
    produce(broker, b"late")
    latest = settings(broker.bootstrap_servers, starting_offsets="latest")
    assert read(latest, created_ms) == [b"late"]


def test_latest_is_the_end_of_a_topic_without_newer_records(broker: Broker, read: Read) -> None:
    latest = settings(broker.bootstrap_servers, starting_offsets="latest")
    assert read(latest, wall_clock_ms() + 2 * kafka_source.CLOCKS_DIFFER_MS) == []


def test_records_deleted_before_they_are_read_stop_the_query(broker: Broker, read: Read) -> None:
    """The message says how to continue without them."""
    read_settings = settings(broker.bootstrap_servers)
    produce(broker, b"read")
    assert b"read" in read(read_settings, 0)
    produce(broker, b"deleted")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for deletion in admin.delete_records([TopicPartition("console_sessions", 0, OFFSET_END)]).values():
        deletion.result(30)
    with pytest.raises(StreamingQueryException) as error:
        read(read_settings, 0)
    assert "start once with --accept-data-loss" in remedy_for([root_cause(str(error.value))])


def test_advice_on_a_topic_that_was_unknown_depends_on_whether_it_is_there_now(
    spark: SparkSession, broker: Broker, read: Read
) -> None:
    topics = ("pc_sessions",)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics(list(topics))["pc_sessions"].result(30)
    with pytest.raises(StreamingQueryException) as error:
        read(settings(broker.bootstrap_servers), 0)
    causes = ["java.io.IOException: gone", root_cause(str(error.value))]

    def remedy(causes: list[str]) -> str | None:
        return kafka_source.remedy_for_topics(spark, settings(broker.bootstrap_servers), topics, causes)

    gone = f"--bootstrap-servers {broker.bootstrap_servers} has no topic pc_sessions now: if it was there before, start"
    assert str(remedy(causes)).startswith(gone)
    broker.create_topics(dict.fromkeys(topics, 1))
    assert str(remedy(causes)).startswith("the topics are there now: nothing is lost, unless")
    assert remedy(causes[:1]) is None
