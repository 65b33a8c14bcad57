"""The sink for Kafka: two topics, each message with its device as the key."""

import logging
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from sessionization.errors import ConfigurationError, DeliveryError
from sessionization.settings.kafka_options import resolve_secrets
from sessionization_simulator.fleet import Fleet
from sessionization_simulator.message_schedule import Messages
from sessionization_simulator.message_text import STREAMS, by_stream, chunks
from sessionization_simulator.simulate_settings import GUARANTEE_OPTIONS, SimulateSettings

_ANSWER_S = 10
_POLL_S = 0.1
_TUNED: Final[dict[str, Any]] = {
    "linger.ms": 20,
    "compression.type": "lz4",
    "queue.buffering.max.messages": 100_000,
    "queue.buffering.max.kbytes": 64 * 1024,
    # A broker that takes nothing for half a minute is considered gone for good, not restarting.
    "delivery.timeout.ms": 30_000,
}


class KafkaSink:
    """Sends messages to the topics `pc_sessions` and `console_sessions`.

    No message is lost or duplicated, and the messages of one device arrive in their order. The value of a message is
    a line without its line break. The key is the id of the sending device, even if dirt has removed it from the line.
    """

    step_ms = 100

    def __init__(self, settings: SimulateSettings, fleet: Fleet) -> None:
        """Connect, and check that both topics exist.

        Raises `ConfigurationError` when an option is wrong, no broker answers, or a topic is missing.
        """
        self._brokers = settings.bootstrap_servers or ""
        self._fleet = fleet
        self._failure: KafkaError | None = None
        self._last_error: KafkaError | None = None
        options = {
            "bootstrap.servers": self._brokers,
            **_TUNED,
            **resolve_secrets(settings.kafka_options, None),
            **GUARANTEE_OPTIONS,
        }
        logger = logging.getLogger("sessionization.librdkafka")  # errors arrive below, and log lines need no place
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        callbacks = {"error_cb": self._remember_error, "on_delivery": self._note_failure, "logger": logger}
        try:
            self._producer = Producer({**options, **callbacks})
        except (KafkaException, TypeError, ValueError) as error:
            cause = error.args[0].str() if isinstance(error, KafkaException) else str(error)
            msg = f"--kafka-option or --bootstrap-servers cannot be used ({cause}): correct it"
            raise ConfigurationError(msg) from error
        self._check_topics()

    def write(self, messages: Messages) -> None:
        """Queue messages to be sent, and wait while too many are on their way.

        Raises `DeliveryError` when a message cannot be sent, or when an earlier one could not be delivered.
        """
        for stream, messages_of_stream in by_stream(messages, self._fleet):
            ids = self._fleet.ids(messages_of_stream["device"])
            keys = iter(ids.view(f"S{ids.shape[1]}").ravel().tolist())
            for text in chunks(messages_of_stream, self._fleet, stream.device_field):
                # One iterator of keys spans all chunks.
                for line, key in zip(text.splitlines(), keys, strict=False):
                    self._send(stream.name, line, key)
        self._producer.poll(0)
        self._raise_failure()

    def close(self) -> None:
        """Wait until every message is delivered, at most for the delivery timeout.

        Raises `DeliveryError` when a message cannot be delivered.
        """
        while self._producer.flush(_POLL_S):
            self._raise_failure()
        self._raise_failure()

    def summary(self) -> str:
        return f"topics {' and '.join(stream.name for stream in STREAMS)} of {self._brokers}"

    def _send(self, topic: str, line: bytes, key: bytes) -> None:
        while True:
            try:
                return self._producer.produce(topic, line, key)
            except BufferError:
                self._producer.poll(_POLL_S)
                self._raise_failure()
            except KafkaException as error:
                raise self._undelivered(error.args[0]) from error

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
        missing = [stream.name for stream in STREAMS if stream.name not in topics]
        if missing:
            msg = (
                f"{self._brokers} has no topic {' and no topic '.join(missing)}: create it, "
                "or see that this user may describe it"
            )
            raise ConfigurationError(msg)

    def _remember_error(self, error: KafkaError) -> None:
        if error.name() != "_ALL_BROKERS_DOWN":  # which names no cause
            self._last_error = error

    def _note_failure(self, error: KafkaError | None, _: Message) -> None:
        if error is not None and self._failure is None:
            self._failure = error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            self._producer.purge()
            raise self._undelivered(self._failure)

    def _undelivered(self, cause: KafkaError) -> DeliveryError:
        causes = "; ".join(error.str() for error in (cause, self._last_error) if error is not None)
        return DeliveryError(
            f"{self._brokers} does not take the messages any more ({causes}): "
            "see that the broker runs and takes them, and start again"
        )
