"""How the operator's state is laid out: one device per grouping key, or a group of devices."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self
from zlib import crc32

import orjson
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sessionization.core.state import Live, Sessions, SessionState
from sessionization.spark.codec import STATE_SCHEMA, at_rest, from_entries, from_entry, has_live, to_entries, to_entry

STATE_NAME = "sessions"

Devices = dict[str, dict[int, SessionState]]
"""The sessions of devices."""

_SESSION_ID = StructField("session_id", LongType())
_BUCKET = StructField("bucket", LongType())
_BUCKET_VALUE = StructType([StructField("devices", StringType())])

_BUCKETS = 16
"""Into how many parts the devices of a group are spread. A checkpoint keeps it for good, as it keeps the groups."""
_DEVICES_PER_GROUP = 1_000
_READ_ALONE = 2
"""So many buckets are read one by one, more of them all at once."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What one grouping key holds: one device, or with `device_groups` all devices of one hash group.

    A checkpoint keeps its layout for good (docs/adr/0003-device-grouping.md).
    """

    device_groups: int | None = None

    def __str__(self) -> str:
        return "by device" if self.device_groups is None else f"in {self.device_groups:,} device groups"

    def grouping_key(self) -> Column:
        """The text that events are grouped by, from the column `device_id`."""
        if self.device_groups is None:
            return F.col("device_id")
        return F.pmod(F.crc32(F.col("device_id").cast("binary")), F.lit(self.device_groups)).cast("string")

    def open(self, handle: StatefulProcessorHandle) -> "State":
        """The operator's state variables."""
        return OneDevice(handle) if self.device_groups is None else Group(handle, self.device_groups)


def groups_for(devices: int | None) -> int | None:
    """How many device groups suit so many devices, of which few have more than one session that is remembered.

    A thousand a group (docs/performance.md); for fewer than two thousand, or an unknown number, none.
    """
    if devices is None or devices < 2 * _DEVICES_PER_GROUP:
        return None
    return -(-devices // _DEVICES_PER_GROUP)


class State(ABC):
    """What is remembered under the grouping key at hand, device by device; a device that is not known is left out.

    What was saved is written, at the latest, by `flush`; then the next key may come.
    """

    @abstractmethod
    def read(self, key: str, device_ids: Iterable[str]) -> Devices:
        """The sessions of these devices."""

    @abstractmethod
    def read_due(self, key: str, until_ms: int) -> Devices:
        """The sessions of the devices of which one is live, or was closed or came to wait at or before an instant."""

    @abstractmethod
    def read_others(self, key: str, device_ids: Collection[str]) -> Devices:
        """The sessions of all devices but these."""

    @abstractmethod
    def live_beside(self, device_ids: Collection[str]) -> bool:
        """Whether a session of another device is seen to be live; one that was not read is not seen."""

    @abstractmethod
    def save(self, device_id: str, before: Sessions, after: Sessions) -> None:
        """Save what has changed of a device that was read.

        The core returns an entry that it did not change as the object that it got.
        """

    @abstractmethod
    def flush(self) -> None:
        """Write what is not written yet."""


class OneDevice(State):
    """`MapState<session_id, SessionState>`; the grouping key is the device."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._sessions = handle.getMapState(STATE_NAME, StructType([_SESSION_ID]), STATE_SCHEMA)

    def read(self, key: str, device_ids: Iterable[str]) -> Devices:  # noqa: ARG002 - it is always the same one
        values = list(self._sessions.iterator())
        with Named() as at:
            at.device_id = key
            sessions = {session_id: to_entry(value) for (session_id,), value in values}
        return {key: sessions} if sessions else {}

    def read_due(self, key: str, until_ms: int) -> Devices:  # noqa: ARG002 - there is no other device to leave out
        return self.read(key, (key,))

    def read_others(self, key: str, device_ids: Collection[str]) -> Devices:  # noqa: ARG002
        return {}

    def live_beside(self, device_ids: Collection[str]) -> bool:  # noqa: ARG002
        return False

    def save(self, device_id: str, before: Sessions, after: Sessions) -> None:  # noqa: ARG002
        for session_id, entry in after.items():
            if before.get(session_id) is not entry:
                self._sessions.updateValue((session_id,), from_entry(entry))
        for session_id in before.keys() - after.keys():
            self._sessions.removeKey((session_id,))

    def flush(self) -> None:
        pass


class Group(State):
    """`MapState<bucket, devices>`.

    The devices of a group are spread over buckets, and a bucket is one JSON text: `{device_id: sessions, ...}`. So the
    devices of a bucket share a read and a write, and PySpark need not convert nested columns: it would parse their
    schema for every value.

    An event reads and writes its own bucket alone, a timer reads all of them at once. As long as one session is live
    anywhere the timer is the next grid instant, and in a bucket of many devices one mostly is: so an event seldom has to
    read the others for the sake of the timer.
    """

    def __init__(self, handle: StatefulProcessorHandle, device_groups: int) -> None:
        self._groups = device_groups
        self._buckets = handle.getMapState(STATE_NAME, StructType([_BUCKET]), _BUCKET_VALUE)
        self._read: dict[int, dict[str, Any]] = {}
        self._has_read_all = False
        self._changed: set[int] = set()

    def read(self, key: str, device_ids: Iterable[str]) -> Devices:
        places = [(device_id, self._bucket_of(device_id)) for device_id in device_ids]
        self._read, self._has_read_all = {bucket: {} for _, bucket in places}, False
        for bucket, text in self._texts(self._read.keys()):
            self._read[bucket] = _devices(key, text)
        return _sessions(
            (device_id, self._read[bucket][device_id])
            for device_id, bucket in places
            if device_id in self._read[bucket]
        )

    def read_due(self, key: str, until_ms: int) -> Devices:
        self._read, self._has_read_all = self._all(key), True
        devices = (item for bucket in self._read.values() for item in bucket.items())
        return _sessions(devices, but=lambda rows: at_rest(rows, until_ms))

    def read_others(self, key: str, device_ids: Collection[str]) -> Devices:
        stored = self._read if self._has_read_all else self._all(key)
        return _sessions(item for bucket in stored.values() for item in bucket.items() if item[0] not in device_ids)

    def live_beside(self, device_ids: Collection[str]) -> bool:
        devices = (item for bucket in self._read.values() for item in bucket.items())
        return any(device_id not in device_ids and has_live(rows) for device_id, rows in devices)

    def save(self, device_id: str, before: Sessions, after: Sessions) -> None:
        if before.keys() == after.keys() and all(before[session_id] is after[session_id] for session_id in after):
            return
        bucket = self._bucket_of(device_id)
        self._changed.add(bucket)
        if after:
            self._read[bucket][device_id] = from_entries(after)
        else:
            self._read[bucket].pop(device_id, None)

    def flush(self) -> None:
        for bucket in self._changed:
            if self._read[bucket]:
                text = orjson.dumps(self._read[bucket]).decode()
                self._buckets.updateValue((bucket,), (text,))
            else:
                self._buckets.removeKey((bucket,))
        self._changed.clear()

    def _all(self, key: str) -> dict[int, dict[str, Any]]:
        return {bucket: _devices(key, text) for (bucket,), (text,) in self._buckets.iterator()}

    def _texts(self, buckets: Collection[int]) -> Iterator[tuple[int, str]]:
        """Buckets as they are stored; a state call costs more than to hand over some buckets that nobody asked for."""
        if len(buckets) > _READ_ALONE:
            yield from ((bucket, text) for (bucket,), (text,) in self._buckets.iterator() if bucket in buckets)
        else:
            values = ((bucket, self._buckets.getValue((bucket,))) for bucket in buckets)
            yield from ((bucket, value[0]) for bucket, value in values if value is not None)

    def _bucket_of(self, device_id: str) -> int:
        """Of the hash whose remainder is the group, the quotient decides: the remainder is the same for all of it."""
        return crc32(device_id.encode()) // self._groups % _BUCKETS


def any_live(devices: Devices) -> bool:
    """Whether a session is live on one of these devices."""
    return any(isinstance(entry, Live) for sessions in devices.values() for entry in sessions.values())


class Named:
    """Says which device was at hand when something failed: whoever is on call has to find its messages."""

    device_id = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if not isinstance(error, Exception):
            return
        msg = f"device {self.device_id!r}: {error}"
        raise RuntimeError(msg) from error


def _devices(key: str, text: str) -> dict[str, Any]:
    """The devices of a bucket, their sessions not looked at yet."""
    try:
        devices = orjson.loads(text)
    except ValueError as error:
        msg = f"group {key}: a bucket of the state cannot be read ({error})"
        raise RuntimeError(msg) from error
    assert isinstance(devices, dict)
    return devices


def _sessions(devices: Iterable[tuple[str, Any]], but: Callable[[Any], bool] = lambda _: False) -> Devices:
    """Read devices as they are stored, except those whose rows `but` is true of."""
    read: Devices = {}
    with Named() as at:
        for at.device_id, rows in devices:
            if not but(rows):
                read[at.device_id] = to_entries(rows)
    return read
