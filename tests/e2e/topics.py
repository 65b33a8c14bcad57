"""The two topics on a broker, seen from outside of the job."""

import time
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, TopicPartition

from sessionization.spark.parse import STREAMS
from tests.e2e.checkpoints import Offsets
from tests.e2e.messages import Message, Records

_ANSWER_S = 20


@dataclass(frozen=True)
class Topics:
    """Both topics, with so many partitions each, on a broker."""

    bootstrap_servers: str
    partitions: int

    @property
    def options(self) -> tuple[str, ...]:
        """What makes a job read them."""
        return "--source", "kafka", "--bootstrap-servers", self.bootstrap_servers

    def ends(self) -> Offsets:
        """The offset after the last record of each partition; a broker that has just started is given time."""
        deadline_s = time.monotonic() + _ANSWER_S
        consumer = self._consumer()
        try:
            while True:
                try:
                    return {
                        (place.topic, place.partition): consumer.get_watermark_offsets(place, timeout=_ANSWER_S)[1]
                        for place in self._places()
                    }
                except KafkaException:
                    if time.monotonic() >= deadline_s:
                        raise
        finally:
            consumer.close()

    def records(self) -> Records:
        """All records, which must not have been deleted."""
        ends = self.ends()
        consumer = self._consumer()
        found: dict[tuple[str, int, int], Message] = {}
        try:
            consumer.assign([TopicPartition(place.topic, place.partition, 0) for place in self._places()])
            while len(found) < sum(ends.values()):
                records = consumer.consume(10_000, timeout=_ANSWER_S)
                assert records, f"{len(found)} of {sum(ends.values())} records within {_ANSWER_S} s"
                for record in records:
                    assert record.error() is None
                    position = (record.topic(), record.partition(), record.offset())
                    found[position] = Message(*position, None, record.timestamp()[1], record.value())
        finally:
            consumer.close()
        return Records(found)

    def _places(self) -> list[TopicPartition]:
        return [TopicPartition(topic, partition) for topic in STREAMS for partition in range(self.partitions)]

    def _consumer(self) -> Consumer:
        return Consumer({"bootstrap.servers": self.bootstrap_servers, "group.id": "tests", "enable.auto.commit": False})
