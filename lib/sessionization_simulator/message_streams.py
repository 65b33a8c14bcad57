"""The two streams, and the division of messages between them."""

from collections.abc import Iterator
from dataclasses import dataclass

from sessionization.streams import CONSOLE_STREAM, PC_STREAM
from sessionization_simulator.fleet import Fleet
from sessionization_simulator.message_schedule import Messages


@dataclass(frozen=True, slots=True)
class Stream:
    """One of the two streams: the name of its folder and topic, and the device field of its messages."""

    name: str
    device_field: str


PC = Stream(PC_STREAM, "hostPcId")
CONSOLE = Stream(CONSOLE_STREAM, "openPsid")
STREAMS = (PC, CONSOLE)


def by_stream(messages: Messages, fleet: Fleet) -> Iterator[tuple[Stream, Messages]]:
    """Yield the messages of each stream that has any, in their order."""
    is_console = fleet.are_consoles(messages["device"])
    for stream, part in ((PC, messages[~is_console]), (CONSOLE, messages[is_console])):
        if len(part):
            yield stream, part
