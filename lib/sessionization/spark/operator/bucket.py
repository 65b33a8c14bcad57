"""A bucket of the state: devices and their stored sessions, as JSON text."""

import re
from json import JSONDecoder
from typing import Any

import orjson

_decode_at = JSONDecoder().raw_decode
_FINDABLE = re.compile(r"\w[\w.:-]*", re.ASCII)
"""The device ids that can be found in the text: JSON writes them as they are.

If such an id follows a comma and a quote, the quote begins a string: after a quote that ends one comes a comma, a
colon or a bracket. If a quote and a colon follow the id, the string is a key.
"""

StoredSessions = list[Any]
"""The sessions of a device as `codec.encode_entries` wrote them."""


class Bucket:
    """Devices with their stored sessions: the JSON object `{"device":sessions,"device":sessions}`.

    An event concerns few of a bucket's devices. Their sessions are found and replaced in the text, because to parse
    and write the others too would be a fifth of an event's cost. `devices` parses them all.

    Raises `RuntimeError` for a text that does not begin and end like JSON, and for JSON that is read and is broken.
    Spark's state store compares the checksums of its files.
    """

    __slots__ = ("_devices", "_name", "_text")

    def __init__(self, name: str, text: str = "{}") -> None:
        """Args: `name` is for errors; `text` is what `text` returned, in this version or an earlier one."""
        self._name = name
        self._text = text
        self._devices: dict[str, StoredSessions] | None = None
        """All devices, once they have been parsed; from then on the text is out of date."""
        if not (text.startswith("{") and text.endswith("}")):
            msg = f"{len(text):,} characters that are not a JSON object"
            raise self._error(msg)

    def __bool__(self) -> bool:
        return self._text != "{}" if self._devices is None else bool(self._devices)

    def devices(self) -> dict[str, StoredSessions]:
        """Return the stored sessions of all devices. Who changes them changes the bucket."""
        if self._devices is None:
            try:
                devices = orjson.loads(self._text)
            except ValueError as error:
                raise self._error(error) from error
            assert isinstance(devices, dict)
            self._devices = devices
        return self._devices

    def get(self, device_id: str) -> StoredSessions | None:
        """Return a device's stored sessions; None if the bucket does not have the device."""
        if self._is_parsed_for(device_id):
            return self.devices().get(device_id)
        place = self._find(device_id)
        return None if place is None else place[0]

    def put(self, device_id: str, sessions: StoredSessions) -> None:
        self.remove(device_id)
        if self._devices is not None:
            self._devices[device_id] = sessions
            return
        entry = f'"{device_id}":{orjson.dumps(sessions).decode()}'
        self._text = f"{{{entry}}}" if self._text == "{}" else f"{self._text[:-1]},{entry}}}"

    def remove(self, device_id: str) -> None:
        if self._is_parsed_for(device_id):
            self.devices().pop(device_id, None)
            return
        place = self._find(device_id)
        if place is None:
            return
        _, start, end = place
        if start == 1 and self._text[end] == ",":
            end += 1
        elif start > 1:
            start -= 1
        self._text = self._text[:start] + self._text[end:]

    def text(self) -> str:
        return self._text if self._devices is None else orjson.dumps(self._devices).decode()

    def _is_parsed_for(self, device_id: str) -> bool:
        return self._devices is not None or not _FINDABLE.fullmatch(device_id)

    def _find(self, device_id: str) -> tuple[StoredSessions, int, int] | None:
        """Return a device's sessions, and where its key begins and its sessions end in the text."""
        key = f'"{device_id}":'
        if self._text.startswith(key, 1):
            start = 1
        else:
            start = self._text.find(f",{key}") + 1
            if not start:
                return None
        try:
            sessions, end = _decode_at(self._text, start + len(key))
        except ValueError as error:
            raise self._error(error) from error
        return sessions, start, end

    def _error(self, reason: Exception | str) -> RuntimeError:
        return RuntimeError(f"{self._name} of the state cannot be read ({reason})")
