"""The sink for Kafka: a topic per stream, each message with its device as the key."""

from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from sessionization.errors import ConfigurationError, DeliveryError
from sessionization.settings.kafka_options import parse_kafka_options, resolve_secrets
from sessionization_simulator.evening import Messages
from sessionization_simulator.message_text import Wording
from sessionization_simulator.simulate_settings import SimulateSettings

_GUARANTEES: Final[dict[str, Any]] = {
    "acks": "all",
    "delivery.report.only.error": True,
    "enable.idempotence": True,
    # As in Java clients, so that every client sends a device to the same partition.
    "partitioner": "murmur2_random",
}
"""Options of librdkafka that guarantee order, no duplicates, and no silent loss."""
_ANSWER_S = 10
_POLL_S = 0.1
_TUNED: Final[dict[str, Any]] = {
    "log_level": 0,  # errors arrive by the callbacks
    "linger.ms": 20,
    "compression.type": "lz4",
    "queue.buffering.max.messages": 100_000,
    "queue.buffering.max.kbytes": 64 * 1024,
    # A broker that takes nothing for half a minute is considered gone for good, not restarting.
    "delivery.timeout.ms": 30_000,
}


class KafkaSink:
    """Sends messages to the topics of an event map.

    No message is lost or duplicated, and the messages of one device arrive in their order. The value of a message is
    a line without its line break. The key is the id of the sending device, even if dirt has removed it from the line.
    """

    def __init__(self, settings: SimulateSettings, wording: Wording) -> None:
        """Connect, and check that the topics exist.

        Raises `ConfigurationError` when an option is wrong, no broker answers, or a topic is missing.
        """
        self._brokers = settings.bootstrap_servers or ""
        self._wording = wording
        self._failure: KafkaError | None = None
        self._last_error: KafkaError | None = None
        options = {
            **_TUNED,
            **resolve_secrets(parse_kafka_options(settings.kafka_option), None),
            **_GUARANTEES,
            "bootstrap.servers": self._brokers,
            "error_cb": self._remember_error,
            "on_delivery": self._note_failure,
        }
        try:
            self._producer = Producer(options)
        except KafkaException as error:
            msg = f"--kafka-option or --bootstrap-servers cannot be used ({error.args[0].str()}): correct it"
            raise ConfigurationError(msg) from error
        self._check_topics()

    def write(self, messages: Messages) -> None:
        """Queue messages to be sent, and wait while too many are on their way.

        Raises `DeliveryError` when an earlier one could not be delivered.
        """
        for stream, of_stream in self._wording.by_stream(messages):
            for device, line in self._wording.keyed_texts(of_stream, stream):
                self._send(stream, line, device)
        self._poll(0)

    def close(self) -> None:
        """Wait until every message is delivered, at most for the delivery timeout.

        Raises `DeliveryError` when a message cannot be delivered.
        """
        while self._producer.flush(_POLL_S):
            self._poll(0)
        self._poll(0)

    def summary(self) -> str:
        return f"topics {' and '.join(self._wording.streams)} of {self._brokers}"

    def _send(self, topic: str, line: bytes, key: str) -> None:
        while True:
            try:
                return self._producer.produce(topic, line, key)
            except BufferError:
                self._poll(_POLL_S)

    def _check_topics(self) -> None:
        try:
            topics = self._producer.list_topics(timeout=_ANSWER_S).topics
        except KafkaException as error:
            self._producer.poll(0)
            cause = self._last_error or error.args[0]
            msg = (
                f"no broker answers at {self._brokers!r} within {_ANSWER_S} s ({cause.str()}): "
                "see that it runs, and correct --bootstrap-servers or --kafka-option"
            )
            raise ConfigurationError(msg) from error
        missing = [stream for stream in self._wording.streams if stream not in topics]
        if missing:
            msg = f"{self._brokers} has no topic {' and no topic '.join(missing)}: create it, or let this user see it"
            raise ConfigurationError(msg)

    def _remember_error(self, error: KafkaError) -> None:
        if error.name() != "_ALL_BROKERS_DOWN":  # which names no cause
            self._last_error = error

    def _note_failure(self, error: KafkaError | None, _: Message) -> None:
        self._failure = self._failure or error

    def _poll(self, longest_s: float) -> None:
        self._producer.poll(longest_s)
        if self._failure is not None:
            self._producer.purge()
            causes = "; ".join(error.str() for error in (self._failure, self._last_error) if error is not None)
            msg = (
                f"{self._brokers} does not take the messages any more ({causes}): "
                "see that the broker runs and takes them, and start again"
            )
            raise DeliveryError(msg)
