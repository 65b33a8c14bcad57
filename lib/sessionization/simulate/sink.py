"""Where the messages of a run go."""

from typing import Protocol

from sessionization.errors import ConfigurationError
from sessionization.optional_packages import how_to_install
from sessionization.simulate.file_sink import FileSink
from sessionization.simulate.fleet import Fleet
from sessionization.simulate.message_schedule import Messages
from sessionization.simulate.simulate_settings import SimulateSettings


class Sink(Protocol):
    """Takes messages in the order of their delivery, each when its time has come."""

    @property
    def step_ms(self) -> int | None:
        """How often it wants those that are due, of the wall clock's time; None: once a `file_interval`."""

    def begin(self, now_ms: int) -> None:
        """Get ready for a run that starts at an instant."""

    def write(self, messages: Messages) -> None:
        """Take what is due, or nothing."""

    def close(self) -> None:
        """Return once everything has arrived."""

    def summary(self) -> str:
        """What was written to, for the last line of a run."""


def open_sink(settings: SimulateSettings, fleet: Fleet) -> Sink:
    """The sink that the settings ask for, ready to begin.

    Raises `ConfigurationError` when the output folder, the brokers or the topics cannot be used.
    """
    if settings.output is not None:
        return FileSink(settings.output, fleet)
    try:
        from sessionization.simulate.kafka_sink import KafkaSink
    except ModuleNotFoundError as error:
        if error.name != "confluent_kafka":
            raise
        msg = f"--sink kafka needs the package confluent-kafka: {how_to_install('kafka')}"
        raise ConfigurationError(msg) from error
    return KafkaSink.open(settings, fleet)
