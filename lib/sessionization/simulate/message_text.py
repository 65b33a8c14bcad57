"""Messages as lines of JSON, many at a time.

Every line is a row of a matrix of bytes in which each field has a column as wide as its longest text; the zeros that
pad it are taken out at the end.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from sessionization.simulate.dirt_kinds import CLEAN, DirtKind
from sessionization.simulate.fleet import Fleet, Text
from sessionization.simulate.malformed import malform
from sessionization.simulate.message_schedule import Messages

_LINES_AT_ONCE = 50_000
_PAD = b"\0"
_LONGEST_ID = 19
_LONGEST_FOREGROUND = 12
_KINDS = dict(enumerate(DirtKind, start=CLEAN + 1))


def chunks(messages: Messages, fleet: Fleet, device_field: str) -> Iterator[bytes]:
    """The messages as lines, a few ten thousand at a time, written as wrongly as their `dirt` says.

    A line follows from its message alone, so that it is the same however the messages are divided.
    """
    for first in range(0, len(messages), _LINES_AT_ONCE):
        some = messages[first : first + _LINES_AT_ONCE]
        text = _valid_lines(some, fleet, device_field)
        rows = np.flatnonzero(some["dirt"])
        if len(rows):
            lines = text.splitlines()
            for row in rows.tolist():
                # Session ids are random already; the End is written in another way than its Start.
                turn = int(some["session_id"][row]) + int(some["is_end"][row])
                lines[row] = malform(lines[row], _KINDS[some["dirt"][row]], turn)
            text = b"\n".join([*lines, b""])
        yield text


def _valid_lines(messages: Messages, fleet: Fleet, device_field: str) -> bytes:
    devices, is_end = messages["device"], messages["is_end"]
    has_account, has_foreground = messages["has_account"], is_end & messages["has_foreground"]
    matrix = np.hstack(
        [
            _same('{"appSessionId":', messages),
            _digits(messages["session_id"], _LONGEST_ID),
            _same(',"eventId":"ApplicationSession', messages),
            _where(is_end, _same("EndBi", messages)),
            _where(~is_end, _same("Start", messages)),
            _same('"', messages),
            _where(has_account, _same(',"psnAccountId":"', messages), fleet.accounts(devices), _same('"', messages)),
            _same(f',"{device_field}":"', messages),
            fleet.ids(devices),
            _same('","timestamp":"', messages),
            _timestamps(messages["at_ms"]),
            _same('Z"', messages),
            _where(
                has_foreground,
                _same(',"totalFgTime":', messages),
                _digits(messages["foreground_s"], _LONGEST_FOREGROUND),
            ),
            _same("}\n", messages),
        ]
    )
    return matrix.tobytes().translate(None, _PAD)


def _same(text: str, messages: Messages) -> Text:
    return np.broadcast_to(np.frombuffer(text.encode(), np.uint8), (len(messages), len(text)))


def _where(present: npt.NDArray[np.bool_], *columns: Text) -> Text:
    """Columns side by side, empty in some rows."""
    return np.hstack(columns) * present[:, np.newaxis]


def _timestamps(at_ms: npt.NDArray[np.int64]) -> Text:
    texts = at_ms.astype("datetime64[ms]").astype("S23")
    return texts.view(np.uint8).reshape(len(at_ms), -1)


def _digits(numbers: npt.NDArray[np.int64], width: int) -> Text:
    texts = numbers.astype(f"S{width}")
    return texts.view(np.uint8).reshape(len(numbers), width)
