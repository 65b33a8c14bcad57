"""The operator's state under a grouping key, read and written device by device."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyspark.sql.streaming import StatefulProcessorHandle
from pyspark.sql.types import LongType, StructField, StructType

from sessionization.core.session_state import Sessions, SessionState
from sessionization.spark.operator.codec import STATE_SCHEMA, StoredEntry, decode_entry, encode_entry

T = TypeVar("T")
R = TypeVar("R")

STATE_NAME = "sessions"

Devices = dict[str, dict[int, SessionState]]
"""Sessions by device id, then by session id."""

_SESSION_ID = StructField("session_id", LongType())


@dataclass(slots=True)
class DueSessions:
    """The result of `read_due`, for the two ways to handle a device: by the rules, or by a heartbeat alone."""

    devices: Devices
    """The devices whose sessions the rules must see, because one may time out or be forgotten."""
    beating: list[tuple[str, StoredEntry]] = field(default_factory=list)
    """The live sessions of all other devices, with their device id: each gets a heartbeat and nothing else."""
    other_entries: int = 0
    """The number of entries of devices that are not in `devices`."""


class SessionStore(ABC):
    """The state under the selected grouping key, by device.

    A device without sessions is missing from what a read returns.

    The order of calls for a key: `select_key`, the reads, `save` for each changed device, `flush`.
    """

    @abstractmethod
    def select_key(self, key: str) -> None:
        """Select a grouping key; nothing of it has been read yet."""

    @abstractmethod
    def read(self, device_ids: Iterable[str]) -> Devices:
        """Read the sessions of these devices."""

    @abstractmethod
    def read_due(self, closed_by_ms: int, opened_by_ms: int) -> DueSessions:
        """Read the sessions that a timer may concern.

        A device needs the rules if it has a session that was closed or became pending at or before `closed_by_ms`, or
        a live session that was opened at or before `opened_by_ms`. Live sessions of other devices can only beat.
        """

    @abstractmethod
    def was_empty(self) -> bool:
        """Return whether nothing was stored under the key when it was read; ask before `flush`."""

    @abstractmethod
    def save(self, device_id: str, loaded: Sessions, updated: Sessions) -> None:
        """Save the changed sessions of a device that was read.

        An unchanged entry is the same object in both: the core returns the object that it got.
        """

    @abstractmethod
    def flush(self) -> None:
        """Write all saved changes that are not written yet."""


class DeviceStore(SessionStore):
    """`MapState<session_id, SessionState>`; the grouping key is the device."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._sessions = handle.getMapState(STATE_NAME, StructType([_SESSION_ID]), STATE_SCHEMA)
        self.select_key("")

    def select_key(self, key: str) -> None:
        self._device_id, self._was_empty = key, True

    def read(self, device_ids: Iterable[str]) -> Devices:  # noqa: ARG002 - always the same device
        values = list(self._sessions.iterator())
        self._was_empty = not values
        return map_devices({self._device_id: values}, _decode_values) if values else {}

    def read_due(self, closed_by_ms: int, opened_by_ms: int) -> DueSessions:  # noqa: ARG002 - one device, always read
        return DueSessions(self.read((self._device_id,)))

    def was_empty(self) -> bool:
        return self._was_empty

    def save(self, device_id: str, loaded: Sessions, updated: Sessions) -> None:  # noqa: ARG002
        for session_id, entry in updated.items():
            if loaded.get(session_id) is not entry:
                self._sessions.updateValue((session_id,), encode_entry(entry))
        for session_id in loaded.keys() - updated.keys():
            self._sessions.removeKey((session_id,))

    def flush(self) -> None:
        pass


def _decode_values(_device_id: str, values: Iterable[tuple[tuple[int], Any]]) -> dict[int, SessionState]:
    return {session_id: decode_entry(value) for (session_id,), value in values}


def map_devices(devices: Mapping[str, T], decide: Callable[[str, T], R]) -> dict[str, R]:
    """Call `decide` for each device, and return the results by device.

    Raises `RuntimeError` where `decide` raises. The error names the device, so that its messages can be found.
    """
    results: dict[str, R] = {}
    device_id = None
    try:
        for device_id, value in devices.items():
            results[device_id] = decide(device_id, value)
    except Exception as error:
        raise device_error(device_id, error) from error
    return results


def device_error(device_id: str | None, error: Exception) -> RuntimeError:
    """Make an error that names the device at which it occurred, so that the device's messages can be found."""
    return RuntimeError(f"device {device_id!r}: {error}")
