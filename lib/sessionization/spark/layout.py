"""How the operator's state is laid out: one device per grouping key, or a group of devices."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sessionization.core.state import Live, Sessions, SessionState
from sessionization.spark.codec import STATE_SCHEMA, from_entries, from_entry, to_entries, to_entry

STATE_NAME = "sessions"
LIVE_NAME = "live"

Devices = dict[str, dict[int, SessionState]]
"""The sessions of devices."""

_SESSION_ID = StructField("session_id", LongType())
_DEVICE_ID = StructField("device_id", StringType())
_GROUP_VALUE = StructType([StructField("sessions", StringType())])
_LIVE_VALUE = StructType([StructField("sessions", LongType())])


@dataclass(frozen=True, slots=True)
class Layout:
    """What one grouping key holds: one device, or with `device_groups` all devices of one hash group.

    A checkpoint keeps its layout for good (docs/adr/0003-device-grouping.md).
    """

    device_groups: int | None = None

    def grouping_key(self) -> Column:
        """The text that events are grouped by, from the column `device_id`."""
        if self.device_groups is None:
            return F.col("device_id")
        return F.pmod(F.crc32(F.col("device_id").cast("binary")), F.lit(self.device_groups)).cast("string")

    def open(self, handle: StatefulProcessorHandle) -> "State":
        """The operator's state variables."""
        return OneDevice(handle) if self.device_groups is None else Group(handle)


class State(ABC):
    """What is remembered under the grouping key at hand, device by device; a device that is not known is left out."""

    @abstractmethod
    def read(self, key: str, device_ids: Iterable[str]) -> Devices:
        """The sessions of these devices."""

    @abstractmethod
    def read_all(self, key: str) -> Devices:
        """The sessions of all devices."""

    @abstractmethod
    def read_others(self, key: str, device_ids: Collection[str]) -> Devices:
        """The sessions of all devices but these."""

    @abstractmethod
    def live_among_others(self, devices: Devices) -> int:
        """How many sessions of other devices are live, `devices` being those that were read and not yet saved."""

    @abstractmethod
    def save(self, device_id: str, before: Sessions, after: Sessions) -> None:
        """Write what has changed; the core returns an entry that it did not change as the object that it got."""

    @abstractmethod
    def save_live(self, before: int, after: int) -> None:
        """Write how many sessions of the key are live, if that has changed."""


class OneDevice(State):
    """`MapState<session_id, SessionState>`; the grouping key is the device."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._sessions = handle.getMapState(STATE_NAME, StructType([_SESSION_ID]), STATE_SCHEMA)

    def read(self, key: str, device_ids: Iterable[str]) -> Devices:  # noqa: ARG002 - it is always the same one
        return self.read_all(key)

    def read_all(self, key: str) -> Devices:
        values = list(self._sessions.iterator())
        with named(key):
            sessions = {session_id: to_entry(value) for (session_id,), value in values}
        return {key: sessions} if sessions else {}

    def read_others(self, key: str, device_ids: Collection[str]) -> Devices:  # noqa: ARG002
        return {}

    def live_among_others(self, devices: Devices) -> int:  # noqa: ARG002
        return 0

    def save(self, device_id: str, before: Sessions, after: Sessions) -> None:  # noqa: ARG002
        for session_id, entry in after.items():
            if before.get(session_id) is not entry:
                self._sessions.updateValue((session_id,), from_entry(entry))
        for session_id in before.keys() - after.keys():
            self._sessions.removeKey((session_id,))

    def save_live(self, before: int, after: int) -> None:
        pass


class Group(State):
    """`MapState<device_id, sessions>`, and how many of the group's sessions are live.

    A device's sessions are one JSON text: PySpark would hand over nested columns together with their schema, and parse
    that for every value.

    An event reads and writes its own device alone, a timer reads all devices at once. The count spares an event to read
    the others for the sake of the timer: as long as one session is live anywhere, that is the next grid instant.
    """

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._devices = handle.getMapState(STATE_NAME, StructType([_DEVICE_ID]), _GROUP_VALUE)
        self._live = handle.getValueState(LIVE_NAME, _LIVE_VALUE)

    def read(self, key: str, device_ids: Iterable[str]) -> Devices:  # noqa: ARG002
        values = {device_id: self._devices.getValue((device_id,)) for device_id in device_ids}
        return {device_id: _sessions(device_id, value[0]) for device_id, value in values.items() if value is not None}

    def read_all(self, key: str) -> Devices:  # noqa: ARG002
        return {device_id: _sessions(device_id, text) for (device_id,), (text,) in self._devices.iterator()}

    def read_others(self, key: str, device_ids: Collection[str]) -> Devices:
        every = self.read_all(key)
        return {device_id: sessions for device_id, sessions in every.items() if device_id not in device_ids}

    def live_among_others(self, devices: Devices) -> int:
        value = self._live.get()
        return (0 if value is None else int(value[0])) - live_in(devices)

    def save(self, device_id: str, before: Sessions, after: Sessions) -> None:
        if not after:
            if before:
                self._devices.removeKey((device_id,))
        elif before.keys() != after.keys() or any(before[session_id] is not after[session_id] for session_id in after):
            self._devices.updateValue((device_id,), (from_entries(after),))

    def save_live(self, before: int, after: int) -> None:
        if after != before:
            self._live.update((after,))


def live_in(devices: Devices) -> int:
    """How many sessions are live on these devices."""
    return sum(isinstance(entry, Live) for sessions in devices.values() for entry in sessions.values())


@contextmanager
def named(device_id: str) -> Iterator[None]:
    """Say which device it was that could not be worked on: whoever is on call has to find its messages."""
    try:
        yield
    except Exception as error:
        msg = f"device {device_id!r}: {error}"
        raise RuntimeError(msg) from error


def _sessions(device_id: str, text: str) -> dict[int, SessionState]:
    with named(device_id):
        return to_entries(text)
