"""The two streams, and which message goes into which."""

from collections.abc import Iterator
from dataclasses import dataclass

from sessionization.simulate.fleet import Fleet
from sessionization.simulate.message_schedule import Messages


@dataclass(frozen=True, slots=True)
class Stream:
    """One of the two streams: the name of its folder and topic, and the name that its messages have for the device."""

    name: str
    device_field: str


PC = Stream("pc_sessions", "hostPcId")
CONSOLE = Stream("console_sessions", "openPsid")
STREAMS = (PC, CONSOLE)


def by_stream(messages: Messages, fleet: Fleet) -> Iterator[tuple[Stream, Messages]]:
    """The messages of each stream that has some, in their order."""
    is_console = fleet.are_consoles(messages["device"])
    for stream, some in ((PC, messages[~is_console]), (CONSOLE, messages[is_console])):
        if len(some):
            yield stream, some
