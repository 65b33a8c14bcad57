"""The load generator with a real broker: it sends the same messages that it writes into files."""

import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from sessionization.errors import ConfigurationError, DeliveryError
from sessionization_laptop.broker import Broker
from sessionization_simulator import kafka_sink
from sessionization_simulator.simulate_job import Summary, simulate
from sessionization_simulator.simulate_settings import SimulateSettings
from tests.simulate.simulated import NOW_MS, STREAMS, play, written
from tests.support.event_maps import OFFSETS

pytestmark = pytest.mark.job

PARTITIONS = 4


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        broker.create_topics(dict.fromkeys(STREAMS, PARTITIONS))
        yield broker


def send(servers: str, **options: Any) -> Summary:
    settings = {"sink": "kafka", "bootstrap_servers": servers, "dirt": 0, "pace": "max"} | options
    return simulate(SimulateSettings.model_validate(settings), now_ms=NOW_MS, report=lambda _: None)


def messages_of(broker: Broker, count: int) -> list[Message]:
    """All messages of both topics, those of a partition in their order."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "tests"})
    consumer.assign([TopicPartition(topic, partition, 0) for topic in STREAMS for partition in range(PARTITIONS)])
    messages: list[Message] = []
    while len(messages) < count:
        fetched = consumer.consume(count - len(messages), timeout=10)
        assert fetched, f"{count - len(messages)} messages cannot be read"
        messages += fetched
    consumer.close()
    return messages


def test_topics_get_the_lines_of_the_files_in_the_order_of_each_device(broker: Broker, tmp_path: Path) -> None:
    options = {"rate": 100, "duration": "30s", "session_length": "5s", "dirt": 0.3, "devices": 500}
    play(tmp_path, **options, file_interval="1m")
    summary = send(broker.bootstrap_servers, **options)
    in_files, sent = written(tmp_path), messages_of(broker, summary.messages)
    counts = Counter(line.line for line in in_files)
    assert Counter(message.value() for message in sent) == counts
    positions = {line.line: position for position, line in enumerate(in_files) if counts[line.line] == 1}
    by_device, partitions = defaultdict(list), defaultdict(set)
    for message in sent:
        partitions[message.key()].add((message.topic(), message.partition()))
        if message.value() in positions:
            by_device[message.key()].append(positions[message.value()])
    assert 200 < len(by_device) <= 500, "the key is the device, also of a line without one"
    assert all(places == sorted(places) for places in by_device.values())
    assert all(len(found) == 1 for found in partitions.values())


@pytest.mark.parametrize(
    ("option", "topic", "refusal"),
    [
        ("client.id=tests", "no_sessions", "has no topic no_sessions: create it"),
        ("linger.ms=soon", "pc_sessions", r"cannot be used .*: correct it"),
    ],
)
def test_a_wrong_option_and_a_missing_topic_are_named(
    broker: Broker, tmp_path: Path, option: str, topic: str, refusal: str
) -> None:
    (tmp_path / "my.yml").write_text(OFFSETS.replace("games", topic))
    with pytest.raises(ConfigurationError, match=refusal):
        send(broker.bootstrap_servers, kafka_option=(option,), events=str(tmp_path / "my.yml"))


def test_without_a_broker_or_a_client_the_run_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kafka_sink, "_ANSWER_S", 1)
    with pytest.raises(ConfigurationError, match=r"no broker answers at '127\.0\.0\.1:1' within 1 s"):
        send("127.0.0.1:1")
    monkeypatch.delitem(sys.modules, "sessionization_simulator.kafka_sink")
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ConfigurationError, match="install the extra kafka"):
        send("127.0.0.1:1")
    assert capfd.readouterr().err == "", "the client itself says nothing"


def test_a_broker_that_does_not_come_back_ends_the_run(broker: Broker) -> None:
    threading.Timer(1, broker.kill).start()
    options = {"rate": 100, "duration": "1h", "session_length": "1s", "pace": "real-time"}
    with pytest.raises(DeliveryError, match=r"does not take the messages any more \(.*: see that the broker runs"):
        send(broker.bootstrap_servers, **options, kafka_option=("delivery.timeout.ms=1000",))
