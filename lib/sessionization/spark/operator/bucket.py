"""A bucket of the state: devices and their stored sessions, one JSON object with a line for each device."""

import re
from collections.abc import Iterator
from typing import Any

import orjson

FORGOTTEN = "null"
"""The sessions of a device that has none any more."""

_LINE = re.compile(r'\n("[^"\\]*(?:\\.[^"\\]*)*"):(.*)[,}]')
"""A device and its sessions, both as JSON."""
_LIVE = re.compile(r'\[-?\d+,"live"')
"""The begin of a live session, as `codec.encode_entries` writes it."""


class Bucket:
    """Devices, each with the JSON of its sessions (`codec.encode_entries`).

    Its text is `{"device":sessions,"device":sessions}` with a line break before each device. JSON has no line break
    within a string. So an event, which concerns few of the devices, finds their lines and parses no others; that takes
    a fourth of the time. The text of an earlier version has no line breaks, and is parsed as a whole.
    """

    __slots__ = ("_lines", "_name", "_text")

    def __init__(self, name: str, text: str = "{}") -> None:
        """Args: `name` is for errors; `text` is as `text` returned it."""
        self._name = name
        self._text: str | None = text
        self._lines: dict[str, str] | None = None

    def __len__(self) -> int:
        return len(self._split())

    def __contains__(self, device_id: str) -> bool:
        return _json(device_id) in self._split()

    def get(self, device_id: str) -> str | None:
        """Return the JSON of a device's sessions; None if the bucket does not have the device."""
        return self._split().get(_json(device_id))

    def put(self, device_id: str, sessions: str) -> None:
        self._split()[_json(device_id)] = sessions
        self._text = None

    def remove(self, device_id: str) -> None:
        self._split().pop(_json(device_id), None)
        self._text = None

    def items(self) -> Iterator[tuple[str, str]]:
        """Yield each device with the JSON of its sessions."""
        for device, sessions in self._split().items():
            yield orjson.loads(device), sessions

    def live_devices(self) -> Iterator[str]:
        """Yield the devices with a live session."""
        for device, sessions in self._split().items():
            if _LIVE.search(sessions):
                yield orjson.loads(device)

    def parsed(self) -> dict[str, Any]:
        """Return the parsed sessions of all devices, None for one that is forgotten."""
        try:
            devices = orjson.loads(self.text())
        except ValueError as error:
            msg = f"{self._name} of the state cannot be read ({error})"
            raise RuntimeError(msg) from error
        assert isinstance(devices, dict)
        return devices

    def text(self) -> str:
        if self._text is None:
            self._text = "{" + ",".join(f"\n{device}:{sessions}" for device, sessions in self._split().items()) + "}"
        return self._text

    def _split(self) -> dict[str, str]:
        """The JSON of each device and of its sessions."""
        if self._lines is None:
            text = self.text()
            self._lines = dict(_LINE.findall(text))
            if not (self._lines and len(self._lines) == text.count("\n") and text.endswith("}")):
                self._lines = {_json(device_id): _json(sessions) for device_id, sessions in self.parsed().items()}
        return self._lines


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
