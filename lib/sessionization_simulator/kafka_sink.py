"""The sink for Kafka: two topics, each message with its device as the key."""

import logging
import time
from typing import Any, Final, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from sessionization.errors import ConfigurationError, DeliveryError
from sessionization.settings.kafka_options import resolve_secrets
from sessionization_simulator import message_text
from sessionization_simulator.fleet import Fleet
from sessionization_simulator.message_schedule import Messages
from sessionization_simulator.message_streams import STREAMS, by_stream
from sessionization_simulator.simulate_settings import GUARANTEE_OPTIONS, SimulateSettings

_ANSWER_S = 10
_ERROR_WITHOUT_CAUSE = "_ALL_BROKERS_DOWN"
_LEAST_FLUSH_S = 60
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
        timeout_ms = options.get("message.timeout.ms", options["delivery.timeout.ms"])
        callbacks = {"error_cb": self._remember_error, "on_delivery": self._note_failure, "logger": _silent_logger()}
        try:
            self._producer = Producer({**options, **callbacks})
            # Longer than the delivery timeout, so that an undeliverable message is reported with its cause.
            self._flush_s = max(2 * int(timeout_ms) / 1_000, _LEAST_FLUSH_S)
        except (KafkaException, TypeError, ValueError) as error:
            cause = error.args[0].str() if isinstance(error, KafkaException) else str(error)
            msg = f"--kafka-option or --bootstrap-servers cannot be used ({_shortened(cause)}): correct it"
            raise ConfigurationError(msg) from error

    @classmethod
    def open(cls, settings: SimulateSettings, fleet: Fleet) -> Self:
        """Connect, and check that both topics exist.

        Raises `ConfigurationError` when an option is wrong, no broker answers, or a topic is missing.
        """
        sink = cls(settings, fleet)
        sink._check_topics()
        return sink

    def begin(self, now_ms: int) -> None:
        """Do nothing: a topic needs no preparation for a run."""

    def write(self, messages: Messages) -> None:
        """Queue messages to be sent, and wait while too many are on their way.

        Raises `DeliveryError` when a message cannot be sent, or when an earlier one could not be delivered.
        """
        try:
            self._produce(messages)
        except KafkaException as error:
            raise self._undelivered(_shortened(error.args[0].str())) from error
        self._producer.poll(0)
        self._raise_failure()

    def close(self) -> None:
        """Wait until every message is delivered.

        Raises `DeliveryError` when a message cannot be delivered.
        """
        deadline_s = time.monotonic() + self._flush_s
        while self._producer.flush(_POLL_S) and time.monotonic() < deadline_s:
            self._raise_failure()
        self._raise_failure()
        if len(self._producer):
            cause = f"{len(self._producer):,} messages are still on their way after {self._flush_s:.0f} s"
            raise self._undelivered(cause)

    def summary(self) -> str:
        return f"topics {' and '.join(stream.name for stream in STREAMS)} of {self._brokers}"

    def _produce(self, messages: Messages) -> None:
        produce = self._producer.produce
        for stream, messages_of_stream in by_stream(messages, self._fleet):
            keys = iter(self._keys(messages_of_stream))
            for text in message_text.chunks(messages_of_stream, self._fleet, stream.device_field):
                # One iterator of keys spans all chunks.
                for line, key in zip(text.splitlines(), keys, strict=False):
                    try:
                        produce(stream.name, line, key)
                    except BufferError:
                        self._produce_when_possible(stream.name, line, key)

    def _keys(self, messages: Messages) -> list[bytes]:
        ids = self._fleet.ids(messages["device"])
        return list(ids.view(f"S{ids.shape[1]}").ravel().tolist())

    def _produce_when_possible(self, topic: str, line: bytes, key: bytes) -> None:
        while True:
            self._producer.poll(_POLL_S)
            self._raise_failure()
            try:
                return self._producer.produce(topic, line, key)
            except BufferError:
                continue

    def _check_topics(self) -> None:
        try:
            topics = self._producer.list_topics(timeout=_ANSWER_S).topics
        except KafkaException as error:
            self._producer.poll(0)
            cause = self._last_error or error.args[0]
            msg = (
                f"no broker answers at {self._brokers!r} within {_ANSWER_S} s ({_shortened(cause.str())}): "
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
        """Remember the last error of librdkafka that names a cause."""
        if error.name() != _ERROR_WITHOUT_CAUSE:
            self._last_error = error

    def _note_failure(self, error: KafkaError | None, _: Message) -> None:
        if error is not None and self._failure is None:
            self._failure = error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            self._producer.purge()
            raise self._undelivered(_shortened(self._failure.str()))

    def _undelivered(self, cause: str) -> DeliveryError:
        last_error = f"; {_shortened(self._last_error.str())}" if self._last_error else ""
        return DeliveryError(
            f"{self._brokers} does not take the messages any more ({cause}{last_error}): "
            "see that the broker runs and takes them, and start again"
        )


def _shortened(text: str) -> str:
    return text.removeprefix("Local: ")


def _silent_logger() -> logging.Logger:
    """Return a logger that drops librdkafka's log lines; the important ones also arrive as errors."""
    logger = logging.getLogger("sessionization.librdkafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger
