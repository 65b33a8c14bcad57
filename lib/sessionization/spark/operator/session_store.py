"""What the operator remembers under a grouping key, read and written device by device."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyspark.sql.streaming import StatefulProcessorHandle
from pyspark.sql.types import LongType, StructField, StructType

from sessionization.core.session_state import Live, Sessions, SessionState
from sessionization.spark.operator.codec import STATE_SCHEMA, StoredEntry, decode_entry, encode_entry

T = TypeVar("T")
R = TypeVar("R")

STATE_NAME = "sessions"

Devices = dict[str, dict[int, SessionState]]
"""The sessions of devices."""

_SESSION_ID = StructField("session_id", LongType())


@dataclass(slots=True)
class DueSessions:
    """What a timer finds: devices of which the rules must decide, and live sessions of others, which can only beat."""

    devices: Devices
    beating: list[tuple[str, StoredEntry]] = field(default_factory=list)
    others: int = 0
    """How many entries the devices have that are not in `devices`."""


class SessionStore(ABC):
    """What is remembered under the grouping key at hand, device by device; a device that is not known is left out.

    What was saved is written, at the latest, by `flush`.
    """

    @abstractmethod
    def select_key(self, key: str) -> None:
        """Take a grouping key in hand; nothing of it has been read yet."""

    @abstractmethod
    def read(self, device_ids: Iterable[str]) -> Devices:
        """The sessions of these devices."""

    @abstractmethod
    def read_all(self) -> Devices:
        """The sessions of all devices."""

    @abstractmethod
    def read_due(self, rested_ms: int, opened_ms: int) -> DueSessions:
        """The devices of which one session is live, or was closed or came to wait at or before `rested_ms`.

        Those that were opened at or before `opened_ms` are for the rules.
        """

    @abstractmethod
    def read_others(self, device_ids: Collection[str]) -> Devices:
        """The sessions of all devices but these."""

    @abstractmethod
    def another_device_is_live(self, device_ids: Collection[str]) -> bool:
        """Whether a session of another device is seen to be live; one that was not read is not seen."""

    @abstractmethod
    def save(self, device_id: str, before: Sessions, after: Sessions) -> None:
        """Save what has changed of a device that was read.

        The core returns an entry that it did not change as the object that it got.
        """

    @abstractmethod
    def flush(self) -> None:
        """Write what is not written yet."""


class DeviceStore(SessionStore):
    """`MapState<session_id, SessionState>`; the grouping key is the device."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._sessions = handle.getMapState(STATE_NAME, StructType([_SESSION_ID]), STATE_SCHEMA)
        self.select_key("")

    def select_key(self, key: str) -> None:
        self._device_id = key

    def read(self, device_ids: Iterable[str]) -> Devices:  # noqa: ARG002 - it is always the same one
        values = list(self._sessions.iterator())
        return by_device({self._device_id: values}, _decode_values) if values else {}

    def read_all(self) -> Devices:
        return self.read((self._device_id,))

    def read_due(self, rested_ms: int, opened_ms: int) -> DueSessions:  # noqa: ARG002 - it is one device, and at hand
        return DueSessions(self.read((self._device_id,)))

    def read_others(self, device_ids: Collection[str]) -> Devices:  # noqa: ARG002
        return {}

    def another_device_is_live(self, device_ids: Collection[str]) -> bool:  # noqa: ARG002
        return False

    def save(self, device_id: str, before: Sessions, after: Sessions) -> None:  # noqa: ARG002
        for session_id, entry in after.items():
            if before.get(session_id) is not entry:
                self._sessions.updateValue((session_id,), encode_entry(entry))
        for session_id in before.keys() - after.keys():
            self._sessions.removeKey((session_id,))

    def flush(self) -> None:
        pass


def _decode_values(_device_id: str, values: Iterable[tuple[tuple[int], Any]]) -> dict[int, SessionState]:
    return {session_id: decode_entry(value) for (session_id,), value in values}


def any_live(devices: Devices) -> bool:
    """Whether a session is live on one of these devices."""
    return any(isinstance(entry, Live) for sessions in devices.values() for entry in sessions.values())


def by_device(devices: Mapping[str, T], decide: Callable[[str, T], R]) -> dict[str, R]:
    """What `decide` returns for each device. An error names the device, so that its messages can be found.

    Raises `RuntimeError`.
    """
    results: dict[str, R] = {}
    device_id = None
    try:
        for device_id, of_device in devices.items():
            results[device_id] = decide(device_id, of_device)
    except Exception as error:
        raise device_error(device_id, error) from error
    return results


def device_error(device_id: str | None, error: Exception) -> RuntimeError:
    """An error that names the device at which it occurred, so that the device's messages can be found."""
    return RuntimeError(f"device {device_id!r}: {error}")
