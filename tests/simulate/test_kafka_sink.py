"""The load generator with a real broker: it sends the same messages that it writes into files."""

import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from sessionization.command_line import parser
from sessionization.errors import ConfigurationError, DeliveryError
from sessionization_laptop.broker import Broker
from sessionization_simulator import kafka_sink
from sessionization_simulator.fleet import Fleet
from sessionization_simulator.message_text import Stream
from sessionization_simulator.simulate_job import Summary, simulate
from sessionization_simulator.simulate_settings import SimulateSettings
from tests.simulate.simulated import NOW_MS, STREAMS, Written, settings_of, written

pytestmark = pytest.mark.job

PARTITIONS = 4


@dataclass(frozen=True)
class Sent:
    """One message as the broker stores it."""

    written: Written
    key: bytes
    partition: int
    arrived_ms: int


class Topics:
    """The two input topics, with the messages since the last read."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        broker.create_topics(dict.fromkeys(STREAMS, PARTITIONS))
        reader = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "tests", "fetch.wait.max.ms": 10}
        self._consumer = Consumer(reader)
        self._ends = {(topic, partition): 0 for topic in STREAMS for partition in range(PARTITIONS)}

    def play(self, **options: Any) -> Summary:
        return simulate(self.settings(**options), now_ms=options.get("now_ms"), report=lambda _: None)

    def settings(self, **options: Any) -> SimulateSettings:
        given = {name: value for name, value in options.items() if name != "now_ms"}
        defaults = {"sink": "kafka", "bootstrap_servers": self.broker.bootstrap_servers, "dirt": 0}
        return SimulateSettings.model_validate(defaults | given)

    def new_messages(self) -> list[Sent]:
        """The messages since the last call, those of a partition in their order."""
        begins = dict(self._ends)
        for topic, partition in begins:
            _, self._ends[topic, partition] = self._consumer.get_watermark_offsets(TopicPartition(topic, partition))
        self._consumer.assign([TopicPartition(*topic_partition, begin) for topic_partition, begin in begins.items()])
        count = sum(self._ends.values()) - sum(begins.values())
        messages: list[Message] = []
        while len(messages) < count:
            fetched = self._consumer.consume(count - len(messages), timeout=10)
            assert fetched, f"{count - len(messages)} messages cannot be read"
            messages += fetched
        return [
            Sent(
                Written(message.topic(), "", message.value()),
                message.key(),
                message.partition(),
                message.timestamp()[1],
            )
            for message in messages
        ]


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield Topics(broker)


@pytest.mark.parametrize("pace", ["max", "20x"])
def test_topics_get_the_lines_of_the_files_in_the_order_of_each_device(
    topics: Topics, tmp_path: Path, pace: str
) -> None:
    options = {"rate": 100, "duration": "30s", "session_length": "5s", "dirt": 0.3, "devices": 500, "pace": pace}
    settings = settings_of(tmp_path, **options | {"file_interval": "500ms"})
    simulate(settings, now_ms=NOW_MS, report=lambda _: None)
    summary = topics.play(**options, file_interval="500ms", now_ms=NOW_MS)
    in_files, sent = written(tmp_path), topics.new_messages()
    assert len(sent) == summary.messages > 2_000
    assert Counter((message.written.stream, message.written.line) for message in sent) == Counter(
        (line.stream, line.line) for line in in_files
    )

    counts = Counter(line.line for line in in_files)
    positions = {line.line: position for position, line in enumerate(in_files) if counts[line.line] == 1}
    by_device = defaultdict(list)
    for message in sent:
        if message.written.line in positions:
            by_device[message.key].append(positions[message.written.line])
    assert len(by_device) > 200
    assert all(device == sorted(device) for device in by_device.values())

    fleet = Fleet(500, settings.console_share, settings.seed)
    ids = {row.tobytes() for row in fleet.ids(np.arange(500, dtype=np.int32))}
    assert {message.key for message in sent} <= ids


def test_the_message_key_is_the_device_id_and_a_device_has_one_partition(topics: Topics) -> None:
    topics.play(rate=100, duration="20s", session_length="2s", devices=300, pace="max")
    sent = topics.new_messages()
    partitions = defaultdict(set)
    for message in sent:
        assert message.key == message.written.device.encode()
        partitions[message.key].add((message.written.stream, message.partition))
    assert len(partitions) > 100
    assert all(len(found) == 1 for found in partitions.values())
    assert {partition for found in partitions.values() for _, partition in found} == set(range(PARTITIONS))


def test_a_stop_delivers_all_messages_that_were_sent(topics: Topics) -> None:
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    settings = topics.settings(live=200, session_length="1s", duration="1h")
    summary = simulate(settings, stop=stop, report=lambda _: None)
    assert len(topics.new_messages()) == summary.messages > 200


def test_the_error_for_a_missing_topic_names_it(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_sink, "STREAMS", (Stream("pc_sessions", ""), Stream("no_sessions", "")))
    with pytest.raises(ConfigurationError, match="has no topic no_sessions: create it"):
        topics.play(duration="1s")


def test_without_a_broker_the_job_prints_one_line_and_exits_with_code_2(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kafka_sink, "_ANSWER_S", 1)
    settings = SimulateSettings.model_validate({"sink": "kafka", "bootstrap_servers": "127.0.0.1:1"})
    with pytest.raises(SystemExit) as exited:
        parser.run(lambda: simulate(settings).messages, "simulate")
    assert exited.value.code == 2
    error = capfd.readouterr().err
    assert error.startswith("simulate: no broker answers at '127.0.0.1:1' within 1 s (")
    assert error.count("\n") == 1


@pytest.mark.parametrize("option", ["no.such.option=1", "linger.ms=soon"])
def test_an_invalid_client_option_is_an_error(topics: Topics, option: str) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be used .*: correct it"):
        topics.play(kafka_option=(option,), duration="100ms")


def test_without_the_kafka_client_the_error_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sessionization_simulator.kafka_sink")
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    settings = SimulateSettings.model_validate({"sink": "kafka", "bootstrap_servers": "127.0.0.1:1"})
    with pytest.raises(ConfigurationError, match=r"pip install -e '\.\[kafka\]'"):
        simulate(settings)


def test_a_broker_that_does_not_come_back_ends_the_run_with_code_1(topics: Topics) -> None:
    threading.Timer(1, topics.broker.kill).start()
    began_s = time.monotonic()
    try:
        with pytest.raises(DeliveryError, match=r"does not take the messages any more \(.*: see that the broker runs"):
            topics.play(rate=100, duration="1h", session_length="1s", kafka_option=("delivery.timeout.ms=1000",))
    finally:
        topics.broker.start()
    assert DeliveryError.exit_code == 1
    assert time.monotonic() - began_s < 30
