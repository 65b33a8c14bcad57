"""Where a message of an event map has what the simulator plays, and in which form."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Self
from uuid import UUID

from sessionization.event_map.field_path import Names
from sessionization.event_map.model import KEEP, TITLE, EventMap

SESSION: Final = "session_id"
EVENT: Final = "event"
ACCOUNT: Final = "account_id"
TIME: Final = "event_time"
PLATFORM: Final = "platform"
FOREGROUND: Final = "foreground_s"
_KNOWN = {ACCOUNT, PLATFORM, FOREGROUND}
"""What a map may leave out. Any other name is that of a field beside, which no map knows."""
ABSENT: Final = object()
TITLES: Final = ("PPSA90117_00", "PPSA90240_00", "PPSA90351_00", "PPSA90468_00")
"""The games that are played; the first one the most."""
_TITLE_OF_TEN = (0, 0, 0, 0, 1, 1, 1, 2, 2, 3)
_KEPT_VALUES = 7
_LACKING_ONE_IN = 9

Values = Mapping[str, Any]
"""The values of a message by these names, those of the parts of an id by `device_part` and `session_part`."""

_to_json = json.JSONEncoder(separators=(",", ":")).encode


@cache
def device_part(number: int) -> str:
    return f"device_id {number}"


@cache
def session_part(number: int) -> str:
    return f"{SESSION} {number}"


def _is_label(place: str) -> bool:
    return place == TITLE or place.startswith(KEEP)


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a stream's messages."""

    events: EventMap
    paths: Mapping[str, Names]
    device_parts: int
    session_parts: int
    label_places: Names
    """The places of title and kept values, without those whose field has another meaning too."""

    @classmethod
    def of(cls, events: EventMap, stream: str) -> Self:
        places = events.paths_of(stream)
        device, session = places.pop("device_id"), places.pop(SESSION)
        paths = {device_part(number): path for number, path in enumerate(device)}
        paths |= {session_part(number): path for number, path in enumerate(session)}
        # An account that is also the device has no field of its own, nor has a kept value with another meaning.
        paths |= {place: path for place, [path] in places.items() if not _is_label(place) and path not in device}
        labels = {place: path for place, [path] in places.items() if _is_label(place) and path not in paths.values()}
        return cls(events, paths | labels, len(device), len(session), tuple(labels))

    def device(self, device_id: str) -> dict[str, str]:
        """The parts of a device id, of which all but the last group devices."""
        if self.device_parts == 1:
            return {device_part(0): device_id}
        groups = {device_part(number): f"group:{device_id[number]}" for number in range(self.device_parts - 1)}
        return {**groups, device_part(self.device_parts - 1): device_id}

    def session(self, number: int) -> dict[str, str | int]:
        """The parts of a session id: a UUID where ids are text, after a small number where it has several parts."""
        if not self.events.has_text_ids:
            return {session_part(0): number}
        uuid = str(UUID(int=number << 64 | number, version=4))
        counts = {session_part(part): number % 7 for part in range(self.session_parts - 1)}
        return {**counts, session_part(self.session_parts - 1): uuid}

    def labels(self, session: int, turn: int) -> dict[str, str]:
        """Title and kept values. The title is the session's, a kept value of each message; some messages lack some."""
        return {
            place: TITLES[_TITLE_OF_TEN[session % 10]] if place == TITLE else f"{place} {turn % _KEPT_VALUES}"
            for number, place in enumerate(self.label_places)
            if (turn + number) % _LACKING_ONE_IN
        }

    @property
    def ping(self) -> str:
        """The kind of a ping, of a map that has activity."""
        return self.events.kinds.activity[0]

    def kind(self, turn: int, *, is_end: bool) -> str:
        kinds = self.events.kinds.end if is_end else self.events.kinds.start
        return kinds[turn % len(kinds)]

    def time(self, iso8601: str, at_ms: int) -> object:
        """An instant, which is given in both forms."""
        match self.events.event_time.format:
            case "epoch_ms":
                return at_ms
            case "epoch_s":
                return at_ms / 1_000
            case "sql_timestamp":
                return iso8601.replace("T", " ")
            case _:
                return f"{iso8601}Z"

    def foreground(self, seconds: int) -> int:
        is_ms = self.events.foreground_s is not None and self.events.foreground_s.unit == "ms"
        return seconds * 1_000 if is_ms else seconds

    def encoded(self, values: Values) -> bytes:
        """The JSON text of a message; what the map does not know is left out."""
        paths = self.paths
        fields: dict[str, Any] = {}
        for name, value in values.items():
            if value is ABSENT:
                continue
            if name in paths:
                *above, last = paths[name]
                holder = fields
                for one in above:
                    holder = holder.setdefault(one, {})
                holder[last] = value
            elif name not in _KNOWN:
                fields[name] = value
        return _to_json(fields).encode()
