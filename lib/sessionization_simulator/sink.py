"""The interface of a sink, and the choice between files and Kafka."""

from typing import Protocol

from sessionization.errors import ConfigurationError
from sessionization.optional_packages import how_to_install
from sessionization_simulator.file_sink import FileSink
from sessionization_simulator.fleet import Fleet
from sessionization_simulator.message_schedule import Messages
from sessionization_simulator.simulate_settings import SimulateSettings


class Sink(Protocol):
    """Takes messages in the order of their delivery, each when it is due."""

    @property
    def step_ms(self) -> int | None:
        """The wall clock interval between two writes; None means once per `file_interval`."""

    def begin(self, now_ms: int) -> None:
        """Prepare for a run that starts at `now_ms`."""

    def write(self, messages: Messages) -> None:
        """Write the messages that are due; there may be none."""

    def close(self) -> None:
        """Return when every message has arrived."""

    def summary(self) -> str:
        """Describe the target, for the last line of a run."""


def open_sink(settings: SimulateSettings, fleet: Fleet) -> Sink:
    """Open the sink that the settings select.

    Raises `ConfigurationError` when the output folder, the brokers or the topics cannot be used.
    """
    if settings.output is not None:
        return FileSink(settings.output, fleet)
    try:
        from sessionization_simulator.kafka_sink import KafkaSink
    except ModuleNotFoundError as error:
        if error.name != "confluent_kafka":
            raise
        msg = f"--sink kafka needs the package confluent-kafka: {how_to_install('kafka')}"
        raise ConfigurationError(msg) from error
    return KafkaSink.open(settings, fleet)
