"""Messages as lines of JSON, many at a time.

Every line is a row of a matrix of bytes, in which each field has a column as wide as its longest text. The padding
zeros are removed at the end.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sessionization.streams import CONSOLE_STREAM, PC_STREAM
from sessionization_simulator.dirt_kinds import DirtKind
from sessionization_simulator.fleet import Fleet, Text
from sessionization_simulator.malformed import malform
from sessionization_simulator.message_schedule import Messages

_LINES_AT_ONCE = 50_000
_PAD = b"\0"
_LONGEST_ID = 19
_LONGEST_FOREGROUND = 12
_KIND_BY_CODE = {kind.code: kind for kind in DirtKind}


@dataclass(frozen=True, slots=True)
class Stream:
    """One of the two streams: the name of its folder and topic, and the device field of its messages."""

    name: str
    device_field: str


PC, CONSOLE = STREAMS = Stream(PC_STREAM, "hostPcId"), Stream(CONSOLE_STREAM, "openPsid")


def by_stream(messages: Messages, fleet: Fleet) -> Iterator[tuple[Stream, Messages]]:
    """Yield the messages of each stream that has any, in their order."""
    is_console = fleet.are_consoles(messages["device"])
    for stream, part in ((PC, messages[~is_console]), (CONSOLE, messages[is_console])):
        if len(part):
            yield stream, part


def chunks(messages: Messages, fleet: Fleet, device_field: str) -> Iterator[bytes]:
    """Write the messages as lines, up to 50,000 at a time, malformed according to their `dirt`.

    A line depends on its message alone, so it does not depend on the division into chunks.
    """
    for first in range(0, len(messages), _LINES_AT_ONCE):
        chunk = messages[first : first + _LINES_AT_ONCE]
        text = _valid_lines(chunk, fleet, device_field)
        rows = np.flatnonzero(chunk["dirt"])
        if len(rows):
            lines = text.splitlines()
            for row in rows.tolist():
                # Session ids are random, so they select the way; an End gets another way than its Start.
                turn = int(chunk["session_id"][row]) + int(chunk["is_end"][row])
                lines[row] = malform(lines[row], _KIND_BY_CODE[chunk["dirt"][row]], turn)
            text = b"\n".join([*lines, b""])
        yield text


def _valid_lines(messages: Messages, fleet: Fleet, device_field: str) -> bytes:
    devices, is_end = messages["device"], messages["is_end"]
    has_account, has_foreground = messages["has_account"], is_end & messages["has_foreground"]
    matrix = np.hstack(
        [
            _constant('{"appSessionId":', messages),
            _digits(messages["session_id"], _LONGEST_ID),
            _constant(',"eventId":"ApplicationSession', messages),
            _optional(is_end, _constant("EndBi", messages)),
            _optional(~is_end, _constant("Start", messages)),
            _constant('"', messages),
            _optional(
                has_account, _constant(',"psnAccountId":"', messages), fleet.accounts(devices), _constant('"', messages)
            ),
            _constant(f',"{device_field}":"', messages),
            fleet.ids(devices),
            _constant('","timestamp":"', messages),
            _timestamps(messages["at_ms"]),
            _constant('Z"', messages),
            _optional(
                has_foreground,
                _constant(',"totalFgTime":', messages),
                _digits(messages["foreground_s"], _LONGEST_FOREGROUND),
            ),
            _constant("}\n", messages),
        ]
    )
    return matrix.tobytes().translate(None, _PAD)


def _constant(text: str, messages: Messages) -> Text:
    return np.broadcast_to(np.frombuffer(text.encode(), np.uint8), (len(messages), len(text)))


def _optional(present: npt.NDArray[np.bool_], *columns: Text) -> Text:
    """Join columns, and empty the rows where `present` is false."""
    return np.hstack(columns) * present[:, np.newaxis]


def _timestamps(at_ms: npt.NDArray[np.int64]) -> Text:
    texts = at_ms.astype("datetime64[ms]").astype("S23")
    return texts.view(np.uint8).reshape(len(at_ms), -1)


def _digits(numbers: npt.NDArray[np.int64], width: int) -> Text:
    texts = numbers.astype(f"S{width}")
    return texts.view(np.uint8).reshape(len(numbers), width)
