"""The Kafka broker of the tests and the demo; each test uses a real broker."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    Message,
    Producer,
    TopicPartition,
)

from sessionization.errors import SetupError
from sessionization_laptop.broker import Broker
from tests.support.processes import processes_of_session

pytestmark = pytest.mark.job

_LONGEST_S = 20
_LARGE = 10 * 1024 * 1024
_LONG_AGO_MS = 1_000_000_000_000
_PARENT_PROCESS = """
import sys, time
from pathlib import Path
from sessionization_laptop.broker import Broker

with Broker(Path(sys.argv[1])) as broker:
    broker.create_topics({"left": 1})
    print(broker.pid, flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker, here")) as running:
        yield running


def produce(broker: Broker, topic: str, value: bytes, timestamp_ms: int = 0, partition: int = 0) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "message.max.bytes": 2 * _LARGE})
    producer.produce(
        topic, value, partition=partition, timestamp=timestamp_ms, on_delivery=lambda error, _: errors.append(error)
    )
    assert producer.flush(_LONGEST_S) == 0
    assert errors == [None]


def first_record(broker: Broker, topic: str, partition: int = 0) -> Message:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "tests"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    record = consumer.poll(_LONGEST_S)
    consumer.close()
    assert record is not None
    assert record.error() is None
    return record


def test_messages_of_up_to_10_mb_are_consumed_as_they_were_produced(broker: Broker) -> None:
    broker.create_topics({"pc_sessions": 1, "console_sessions": 2})
    produce(broker, "pc_sessions", b"x" * _LARGE)
    produce(broker, "console_sessions", b"second partition", partition=1)
    assert first_record(broker, "pc_sessions").value() == b"x" * _LARGE
    assert first_record(broker, "console_sessions", partition=1).value() == b"second partition"


def test_records_have_the_brokers_time_unless_the_topic_uses_the_producers_time(broker: Broker) -> None:
    broker.create_topics({"on_arrival": 1})
    broker.create_topics({"as_sent": 1}, message_timestamp_type="CreateTime")
    before_ms = time.time_ns() // 1_000_000
    for topic in ("on_arrival", "as_sent"):
        produce(broker, topic, b"", timestamp_ms=_LONG_AGO_MS)
    kind, at_ms = first_record(broker, "on_arrival").timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert before_ms <= at_ms <= time.time_ns() // 1_000_000
    assert first_record(broker, "as_sent").timestamp() == (TIMESTAMP_CREATE_TIME, _LONG_AGO_MS)


def test_an_existing_topic_stays_and_an_invalid_topic_name_is_an_error(broker: Broker) -> None:
    broker.create_topics({"kept": 1})
    produce(broker, "kept", b"kept")
    broker.create_topics({"kept": 1})
    assert first_record(broker, "kept").value() == b"kept"
    with pytest.raises(SetupError, match=r"topic no topic could not be created .*broker\.log"):
        broker.create_topics({"no topic": 1})


def test_a_killed_broker_restarts_at_its_address_with_its_records(broker: Broker) -> None:
    broker.create_topics({"survives": 1})
    produce(broker, "survives", b"before")
    address = broker.bootstrap_servers
    broker.kill()
    assert broker.pid is None
    broker.start()
    assert broker.bootstrap_servers == address
    assert first_record(broker, "survives").value() == b"before"


@pytest.mark.long
@pytest.mark.skipif(
    sys.platform != "linux", reason="on other systems a broker ends with its parent only if Python exits normally"
)
def test_a_broker_ends_with_the_process_that_started_it_and_the_next_broker_can_use_its_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PARENT_PROCESS, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        broker = int(parent.stdout.readline())
        assert processes_of_session(broker) == [broker]
        parent.kill()
    deadline_s = time.monotonic() + 5
    try:
        while processes_of_session(broker):
            assert time.monotonic() < deadline_s, "the broker outlives its parent"
            time.sleep(0.02)
        with Broker(tmp_path) as next_broker:
            produce(next_broker, "left", b"inherited")
    finally:
        for pid in processes_of_session(broker):
            os.kill(pid, signal.SIGKILL)


def test_the_error_of_a_broker_that_cannot_start_names_its_log_file(tmp_path: Path) -> None:
    broker = Broker(tmp_path, {"num.io.threads": "none"})
    with pytest.raises(SetupError, match=r"ended with code 1 while starting: .*broker\.log"):
        broker.start()
    assert "num.io.threads" in broker.log_file.read_text()
    assert broker.pid is None
