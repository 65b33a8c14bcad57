"""A bucket of the state: devices and their stored sessions, as JSON text."""

import re
from json import JSONDecoder

import orjson

from sessionization.spark.operator.stored_entries import StoredEntry

_decode_at = JSONDecoder().raw_decode

BucketDevices = dict[str, list[StoredEntry] | None]
"""A bucket's devices with their stored entries; None is a device without entries."""

_PLAIN_ID = re.compile(r"\w[\w.:-]*", re.ASCII)
"""Device ids that JSON writes unchanged. In the text, `,"id":` occurs only as the key of device `id`.

A quote inside a string is escaped, so this one begins or ends a string. After one that ends a string comes a comma, a
colon or a bracket, never an id. So it begins a string, and the colon makes that a key. Only devices are keys: stored
sessions hold no JSON objects.
"""

_MAX_SINGLE_FINDS = 6
"""Up to this number devices are found in the text one by one; for more it is parsed."""


class Bucket:
    """Devices with their stored sessions: the JSON object `{"device":sessions,"device":sessions}`.

    An event concerns few of a bucket's devices. `get` finds their sessions in the text, because parsing all the others
    would be a fifth of an event's cost. When many are needed, it parses the whole text.

    Raises `RuntimeError` if an outer brace is missing, or if the part that is parsed is broken. Damage elsewhere goes
    unnoticed here; Spark's checksums find it.
    """

    __slots__ = ("_devices", "_finds", "_name", "_text")

    def __init__(self, name: str, text: str) -> None:
        """Args: `name` is for error messages; `text` is a stored bucket."""
        self._name = name
        self._text = text
        self._devices: BucketDevices | None = None
        self._finds = 0
        if not text.endswith("}"):
            msg = f"{len(text):,} characters that are not a JSON object"
            raise self._error(msg)
        if not text.startswith('{"'):  # empty, or with spaces or line breaks, which `get` would not find
            self.devices()

    def devices(self) -> BucketDevices:
        """Return all devices with their stored entries; the text is parsed once."""
        if self._devices is None:
            try:
                self._devices = orjson.loads(self._text)
            except ValueError as error:
                raise self._error(error) from error
        return self._devices

    def get(self, device_id: str) -> list[StoredEntry] | None:
        """Return a device's stored entries; None if the bucket does not have the device."""
        self._finds += 1
        if self._devices is not None or self._finds > _MAX_SINGLE_FINDS or not _PLAIN_ID.fullmatch(device_id):
            return self.devices().get(device_id)
        key = f'"{device_id}":'
        start = 1 if self._text.startswith(key, 1) else self._text.find(f",{key}") + 1
        if not start:
            return None
        try:
            stored: list[StoredEntry] = _decode_at(self._text, start + len(key))[0]
        except ValueError as error:
            raise self._error(error) from error
        return stored

    def _error(self, reason: Exception | str) -> RuntimeError:
        return RuntimeError(f"{self._name} of the state cannot be read ({reason})")
