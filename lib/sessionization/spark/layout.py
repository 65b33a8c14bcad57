"""How the operator's state is laid out: one device per grouping key, or a group of devices."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self
from zlib import crc32

import orjson
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sessionization.core.state import Live, Sessions, SessionState
from sessionization.spark.codec import (
    STATE_SCHEMA, StoredEntry, from_entries, from_entry, has_live, only_beating, to_entries, to_entry,
)  # fmt: skip

STATE_NAME = "sessions"

Devices = dict[str, dict[int, SessionState]]
"""The sessions of devices."""

_SESSION_ID = StructField("session_id", LongType())
_BUCKET = StructField("bucket", LongType())
_BUCKET_VALUE = StructType([StructField("devices", StringType())])

BUCKETS = 64
"""Into how many parts the devices of a group are spread. A checkpoint keeps it for good, as it keeps the groups."""
RECENT = -1
"""The bucket of devices that events changed of late."""
_MOST_RECENT = 512
"""More devices than that are not left there."""
_DEVICES_PER_GROUP = 4_000
_LEAST_GROUPED = 2_000
_LEAST_GROUPS = 32
_READ_ALONE = 24
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

    Four thousand a group (docs/performance.md), but no less than 32 groups, so that state partitions get about the same;
    for fewer than two thousand devices, or an unknown number, none.
    """
    if devices is None or devices < _LEAST_GROUPED:
        return None
    return max(_LEAST_GROUPS, -(-devices // _DEVICES_PER_GROUP))


@dataclass(frozen=True, slots=True)
class Due:
    """What a timer finds: devices of which the rules must decide, and live sessions of others, which can only beat."""

    devices: Devices
    beating: list[tuple[str, StoredEntry]] = field(default_factory=list)


class State(ABC):
    """What is remembered under the grouping key at hand, device by device; a device that is not known is left out.

    What was saved is written, at the latest, by `flush`; then the next key may come.
    """

    @abstractmethod
    def read(self, key: str, device_ids: Iterable[str]) -> Devices:
        """The sessions of these devices."""

    @abstractmethod
    def read_due(self, key: str, rested_ms: int, opened_ms: int) -> Due:
        """The devices of which one session is live, or was closed or came to wait at or before `rested_ms`.

        Those that were opened at or before `opened_ms` are for the rules.
        """

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

    def read_due(self, key: str, rested_ms: int, opened_ms: int) -> Due:  # noqa: ARG002 - it is one device, and at hand
        return Due(self.read(key, (key,)))

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

    An event reads its own bucket alone. What events change is not written there but into one more bucket, the recent
    ones, where a device stands as it is now, or null if it is forgotten: one write for all events of a micro-batch. A
    timer reads everything at once, and moves them to where they belong; so do events when too many are there.

    As long as one session is live anywhere the timer is the next grid instant, and in a bucket of many devices one
    mostly is: so an event seldom has to read the others for the sake of the timer.
    """

    def __init__(self, handle: StatefulProcessorHandle, device_groups: int) -> None:
        self._groups = device_groups
        self._buckets = handle.getMapState(STATE_NAME, StructType([_BUCKET]), _BUCKET_VALUE)
        self._key = ""
        self._read: dict[int, dict[str, Any]] = {}
        self._recent: dict[str, Any] = {}
        self._has_read_all = self._is_due = self._is_recent_stored = self._is_changed = False

    def read(self, key: str, device_ids: Iterable[str]) -> Devices:
        self._begin(key)
        places = {device_id: self._bucket_of(device_id) for device_id in device_ids}
        if len(set(places.values())) > _READ_ALONE:
            self._read_all()
        else:
            self._keep(RECENT, self._buckets.getValue((RECENT,)))
            for bucket in {bucket for device_id, bucket in places.items() if device_id not in self._recent}:
                self._keep(bucket, self._buckets.getValue((bucket,)))
        found = ((device_id, self._rows(device_id, bucket)) for device_id, bucket in places.items())
        return _sessions((device_id, rows) for device_id, rows in found if rows is not None)

    def read_due(self, key: str, rested_ms: int, opened_ms: int) -> Due:
        self._begin(key)
        self._read_all()
        self._is_due = True
        due = Due({})
        with Named() as at:
            for at.device_id, rows in self._seen():
                live = only_beating(rows, rested_ms, opened_ms)
                if live is None:
                    due.devices[at.device_id] = to_entries(rows)
                else:
                    due.beating.extend((at.device_id, row) for row in live)
        return due

    def read_others(self, key: str, device_ids: Collection[str]) -> Devices:  # noqa: ARG002 - it is the one at hand
        self._read_all()
        return _sessions((device_id, rows) for device_id, rows in self._seen() if device_id not in device_ids)

    def live_beside(self, device_ids: Collection[str]) -> bool:
        return any(device_id not in device_ids and has_live(rows) for device_id, rows in self._seen())

    def save(self, device_id: str, before: Sessions, after: Sessions) -> None:
        if before.keys() == after.keys() and all(before[session_id] is after[session_id] for session_id in after):
            return
        self._recent[device_id] = from_entries(after) if after else None
        self._is_changed = True

    def flush(self) -> None:
        if self._recent and (self._is_due or len(self._recent) > _MOST_RECENT):
            self._read_all()
            self._settle()
        elif self._is_changed:
            self._write(RECENT, self._recent)
            self._is_recent_stored = True
        self._is_changed = False

    def _settle(self) -> None:
        """Move the recent devices to their buckets, all of which have been read."""
        stored, changed = set(self._read), set()
        for device_id, rows in self._recent.items():
            bucket = self._bucket_of(device_id)
            changed.add(bucket)
            devices = self._read.setdefault(bucket, {})
            if rows is None:
                devices.pop(device_id, None)
            else:
                devices[device_id] = rows
        for bucket in changed:
            if self._read[bucket]:
                self._write(bucket, self._read[bucket])
            elif bucket in stored:
                self._buckets.removeKey((bucket,))
        if self._is_recent_stored:
            self._buckets.removeKey((RECENT,))
        self._recent, self._is_recent_stored = {}, False

    def _begin(self, key: str) -> None:
        self._key, self._read, self._recent = key, {}, {}
        self._has_read_all = self._is_due = self._is_recent_stored = self._is_changed = False

    def _read_all(self) -> None:
        if self._has_read_all:
            return
        recent = self._recent  # what was saved since it was read is newer
        for (bucket,), value in self._buckets.iterator():
            self._keep(bucket, value)
        self._recent |= recent
        self._has_read_all = True

    def _keep(self, bucket: int, value: tuple[str] | None) -> None:
        if value is None:
            return
        if bucket == RECENT:
            self._recent, self._is_recent_stored = _devices(self._key, value[0]), True
        else:
            self._read[bucket] = _devices(self._key, value[0])

    def _rows(self, device_id: str, bucket: int) -> Any:
        return self._recent[device_id] if device_id in self._recent else self._read.get(bucket, {}).get(device_id)

    def _seen(self) -> Iterator[tuple[str, Any]]:
        """The devices that were read, as they are now."""
        for bucket in self._read.values():
            yield from (item for item in bucket.items() if item[0] not in self._recent)
        yield from ((device_id, rows) for device_id, rows in self._recent.items() if rows is not None)

    def _write(self, bucket: int, devices: dict[str, Any]) -> None:
        self._buckets.updateValue((bucket,), (orjson.dumps(devices).decode(),))

    def _bucket_of(self, device_id: str) -> int:
        """Of the hash whose remainder is the group, the quotient decides: the remainder is the same for all of it."""
        return crc32(device_id.encode()) // self._groups % BUCKETS


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


def _sessions(devices: Iterable[tuple[str, Any]]) -> Devices:
    """Read devices as they are stored."""
    read: Devices = {}
    with Named() as at:
        for at.device_id, rows in devices:
            read[at.device_id] = to_entries(rows)
    return read
