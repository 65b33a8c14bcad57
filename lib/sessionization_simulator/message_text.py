"""Messages as JSON texts, in the format of the contract: the one place that knows its fields."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sessionization.event_map.reading import DEFAULT, package_map
from sessionization_simulator.dirt import DirtKind
from sessionization_simulator.evening import Messages
from sessionization_simulator.fleet import Fleet
from sessionization_simulator.malformed import to_text

_AT_ONCE = 50_000
_KIND_BY_CODE = {kind.code: kind for kind in DirtKind}


@dataclass(frozen=True, slots=True)
class Stream:
    """One of the two streams: the name of its folder and topic, and the device field of its messages."""

    name: str
    device_field: str


_MAP = package_map(DEFAULT)
PC, CONSOLE = STREAMS = tuple(Stream(name, _MAP.device_id_of(name)[0][0]) for name in _MAP.stream_names)


def by_stream(messages: Messages, fleet: Fleet) -> Iterator[tuple[Stream, Messages]]:
    """Yield the messages of each stream that has any, in their order."""
    is_console = fleet.are_consoles(messages["device"])
    for stream, part in ((PC, messages[~is_console]), (CONSOLE, messages[is_console])):
        if len(part):
            yield stream, part


def keyed_texts(messages: Messages, fleet: Fleet, stream: Stream) -> Iterator[tuple[str, bytes]]:
    """Yield the id of the sending device and the text of each message, malformed according to its `dirt`."""
    for first in range(0, len(messages), _AT_ONCE):
        chunk = messages[first : first + _AT_ONCE]
        names = "session_id", "is_end", "has_account", "has_foreground", "foreground_s", "dirt"
        columns = [chunk[name].tolist() for name in names]
        times = np.datetime_as_string(chunk["at_ms"].astype("datetime64[ms]")).tolist()
        ids, accounts = fleet.ids(chunk["device"]), fleet.accounts(chunk["device"])
        for device, account, at, session_id, is_end, has_account, has_foreground, foreground_s, dirt in zip(
            ids, accounts, times, *columns, strict=True
        ):
            fields = {
                "appSessionId": session_id,
                "eventId": "ApplicationSessionEndBi" if is_end else "ApplicationSessionStart",
            }
            if has_account:
                fields["psnAccountId"] = account
            fields |= {stream.device_field: device, "timestamp": f"{at}Z"}
            if is_end and has_foreground:
                fields["totalFgTime"] = foreground_s
            # Session ids are random, so they select the way; an End gets another way than its Start.
            turn = session_id + is_end
            yield device, to_text(fields, stream.device_field, _KIND_BY_CODE.get(dirt), turn)
