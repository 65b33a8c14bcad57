"""Topics on a broker, read independently of the job."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from sessionization_laptop.broker import Broker
from tests.support.checkpoints import Batch, Offsets
from tests.support.default_streams import STREAMS
from tests.support.messages import Message

_ANSWER_S = 20
_ENDS_WITHIN_S = 120
_AT_ONCE = 10_000


@dataclass(frozen=True)
class Topics:
    """Topics on a broker, by default the two of messages, each with this number of partitions."""

    bootstrap_servers: str
    partitions: int
    names: tuple[str, ...] = STREAMS
    client_options: Mapping[str, str] = field(default_factory=dict)

    @property
    def options(self) -> tuple[str, ...]:
        """The options that make a job read the topics."""
        return "--source", "kafka", "--bootstrap-servers", self.bootstrap_servers

    def ends(self) -> Offsets:
        """The offset after the last record of each partition; waits for a broker that is starting or busy."""
        deadline_s = time.monotonic() + _ENDS_WITHIN_S
        consumer = self._consumer()
        try:
            while True:
                try:
                    return {
                        (place.topic, place.partition): consumer.get_watermark_offsets(place, timeout=_ANSWER_S)[1]
                        for place in self._topic_partitions()
                    }
                except KafkaException:
                    if time.monotonic() >= deadline_s:
                        raise
        finally:
            consumer.close()

    @contextmanager
    def records(self) -> Iterator["Records"]:
        """All records; none may have been deleted."""
        records = Records(self._consumer)
        try:
            yield records
        finally:
            records.close()

    def _topic_partitions(self) -> list[TopicPartition]:
        return [TopicPartition(topic, partition) for topic in self.names for partition in range(self.partitions)]

    def _consumer(self) -> Consumer:
        settings = {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": "tests",
            "enable.auto.commit": False,
            "queued.max.messages.kbytes": 16_384,
        }
        return Consumer({**settings, **self.client_options})


class Records:
    """Reads the records of micro-batches from the broker again, fastest in the order of the micro-batches."""

    def __init__(self, consumer: Callable[[], Consumer]) -> None:
        self._consumer = consumer
        self._consumers: dict[tuple[str, int], Consumer] = {}
        self._next: dict[tuple[str, int], int] = {}

    def messages_of(self, batch: Batch) -> Iterator[Message]:
        for topic, partition, first, until in batch.ranges:
            yield from self._read(topic, partition, first, until)

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()

    def _read(self, topic: str, partition: int, first: int, until: int) -> Iterator[Message]:
        place = topic, partition
        if place not in self._consumers:
            self._consumers[place] = self._consumer()
        if self._next.get(place) != first:
            self._consumers[place].assign([TopicPartition(topic, partition, first)])
        for offset in range(first, until, _AT_ONCE):
            count = min(_AT_ONCE, until - offset)
            records = self._consumers[place].consume(count, timeout=_ANSWER_S)
            assert len(records) == count, f"{len(records)} of {count} records of {place} at {offset}"
            for at, record in enumerate(records, offset):
                assert (record.error(), record.offset()) == (None, at)
                value = record.value()
                yield Message(
                    topic, partition, at, None, record.timestamp()[1], value, None if value is None else len(value)
                )
        self._next[place] = until


def delete_records(broker: Broker, name: str, to: int) -> None:
    """Delete the records before the offset `to` of each of two partitions; -1 is the end."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for deleted in admin.delete_records([TopicPartition(name, number, to) for number in range(2)]).values():
        deleted.result(20)
