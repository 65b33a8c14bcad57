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
"""The begin of a live session. No account can look like it, because JSON puts a backslash before its quotes."""


class Bucket:
    """Devices, each with the JSON of its sessions (`codec.encode_entries`).

    Its text is `{"device":sessions,"device":sessions}` with a line break before each device. JSON has no line break
    within a string. So an event, which concerns few of the devices, finds their lines and parses no others: splitting
    takes a fourth of the time of parsing. The text of an earlier version has no line breaks, and is parsed whole.
    """

    __slots__ = ("_name", "_sessions", "_text")

    def __init__(self, name: str, text: str = "{}") -> None:
        """Args: `name` is for errors; `text` is what `text` returned, in this version or an earlier one."""
        self._name = name
        self._text: str | None = text
        """None after a change, until it is asked for."""
        self._sessions: dict[str, str] | None = None
        """The JSON of the sessions by the JSON of the device; None until it is needed."""

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
        """Return the parsed sessions of all devices, None for one that is forgotten.

        Raises `RuntimeError` for a text that is not JSON, as all methods but `text` do.
        """
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
        if self._sessions is None:
            text = self.text()
            sessions = dict(_LINE.findall(text))
            if not sessions or len(sessions) != text.count("\n") or not _is_complete(text):
                sessions = {_json(device_id): _json(rows) for device_id, rows in self.parsed().items()}
            self._sessions = sessions
        return self._sessions


def _is_complete(text: str) -> bool:
    """Whether the last line is complete, and so the text was not cut off."""
    try:
        orjson.loads("{" + text[text.rindex("\n") :])
    except ValueError:
        return False
    return True


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
