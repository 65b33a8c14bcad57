"""Messages as JSON texts, as an event map says."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sessionization.event_map.model import EventMap
from sessionization.event_map.parts import PlatformField
from sessionization_simulator.dirt import DirtKind
from sessionization_simulator.evening import Messages
from sessionization_simulator.fleet import Devices, Fleet, Integers
from sessionization_simulator.malformed import Writer
from sessionization_simulator.message_form import ACCOUNT, EVENT, FOREGROUND, PLATFORM, TIME, Form

_AT_ONCE = 50_000
_KIND_BY_CODE = {kind.code: kind for kind in DirtKind}


class _Place(NamedTuple):
    """What some of the devices send to: a stream, and the text of its field with the platform, where it has one."""

    stream: str
    platform: str | None


class Wording:
    """Writes the messages of a fleet in the words of an event map.

    Devices are spread over the streams and platforms of the map: those that are no consoles belong to the first one.
    """

    def __init__(self, events: EventMap, fleet: Fleet) -> None:
        self.streams = events.stream_names
        self._fleet = fleet
        self._places = list(_places(events))
        self._writers = {stream: Writer(Form.of(events, stream)) for stream in self.streams}

    def by_stream(self, messages: Messages) -> Iterator[tuple[str, Messages]]:
        """Yield the messages of each stream that has any, in their order."""
        numbers = self._place_numbers(messages["device"])
        for stream in self.streams:
            of_stream = [number for number, place in enumerate(self._places) if place.stream == stream]
            part = messages[np.isin(numbers, of_stream)]
            if len(part):
                yield stream, part

    def keyed_texts(self, messages: Messages, stream: str) -> Iterator[tuple[str, bytes]]:
        """Yield the id of the sending device and the text of each message, malformed according to its `dirt`."""
        writer = self._writers[stream]
        form = writer.form
        for first in range(0, len(messages), _AT_ONCE):
            chunk = messages[first : first + _AT_ONCE]
            names = "session_id", "is_end", "is_ping", "has_account", "has_foreground", "foreground_s", "at_ms", "dirt"
            columns = [chunk[name].tolist() for name in names]
            times = np.datetime_as_string(chunk["at_ms"].astype("datetime64[ms]")).tolist()
            devices = chunk["device"]
            ids, accounts, places = (
                self._fleet.ids(devices),
                self._fleet.accounts(devices),
                self._place_numbers(devices),
            )
            for (
                device,
                account,
                place,
                time,
                session_id,
                is_end,
                is_ping,
                has_account,
                has_foreground,
                foreground,
                at,
                dirt,
            ) in zip(ids, accounts, places.tolist(), times, *columns, strict=True):
                # Session ids are random, so they select the way; an End gets another way than its Start, as each ping.
                turn = session_id + (at if is_ping else is_end)
                kind = form.ping if is_ping else form.kind(turn, is_end=is_end)
                values: dict[str, object] = {**form.session(session_id), EVENT: kind}
                if has_account:
                    values[ACCOUNT] = account
                values |= {**form.device(device), TIME: form.time(time, at), PLATFORM: self._places[place].platform}
                values |= form.labels(session_id, turn)
                if is_end and has_foreground:
                    values[FOREGROUND] = form.foreground(foreground)
                yield device, writer.text(values, _KIND_BY_CODE.get(dirt), turn)

    def _place_numbers(self, devices: Devices) -> Integers:
        others = len(self._places) - 1
        if not others:
            return np.zeros(len(devices), np.int64)
        numbers: Integers = np.where(self._fleet.are_consoles(devices), 1 + devices % others, 0)
        return numbers


def _places(events: EventMap) -> Iterator[_Place]:
    for name, stream in events.streams.items():
        if isinstance(stream.platform, PlatformField):
            yield from (_Place(name, text) for text in stream.platform.values)
        else:
            yield _Place(name, None)
