"""The state of a group of devices, in buckets of them."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any
from zlib import crc32

import orjson
from pyspark.sql.streaming import StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sessionization.core.session_state import Sessions
from sessionization.spark.operator.codec import decode_entries, encode_entries, has_live, only_beating
from sessionization.spark.operator.session_store import (
    STATE_NAME,
    Devices,
    DueSessions,
    SessionStore,
    by_device,
    device_error,
)

BUCKETS = 64
"""Into how many parts the devices of a group are spread. A checkpoint keeps it for good, as it keeps the groups."""
RECENT = -1
"""The bucket of devices that events changed of late."""
_MOST_RECENT = 512
"""More devices than that are not left there."""
_READ_ALONE = 24
"""So many buckets are read one by one, more of them all at once."""
_BUCKET = StructField("bucket", LongType())
_BUCKET_VALUE = StructType([StructField("devices", StringType())])


class GroupStore(SessionStore):
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
        self.select_key("")

    def select_key(self, key: str) -> None:
        self._key = key
        self._read: dict[int, dict[str, Any]] = {}
        self._recent: dict[str, Any] = {}
        self._has_read_all = self._is_due = self._is_recent_stored = self._is_changed = False

    def read(self, device_ids: Iterable[str]) -> Devices:
        places = {device_id: self._bucket_of(device_id) for device_id in device_ids}
        if len(set(places.values())) > _READ_ALONE:
            self._read_all()
        else:
            self._keep(RECENT, self._buckets.getValue((RECENT,)))
            for bucket in {bucket for device_id, bucket in places.items() if device_id not in self._recent}:
                self._keep(bucket, self._buckets.getValue((bucket,)))
        found = ((device_id, self._rows(device_id, bucket)) for device_id, bucket in places.items())
        return _sessions((device_id, rows) for device_id, rows in found if rows is not None)

    def read_all(self) -> Devices:
        return self.read_others(())

    def read_due(self, rested_ms: int, opened_ms: int) -> DueSessions:
        self._read_all()
        self._is_due = True
        due = DueSessions({})
        device_id = None
        try:
            for device_id, rows in self._seen():
                live = only_beating(rows, rested_ms, opened_ms)
                if live is None:
                    due.devices[device_id] = decode_entries(rows)
                else:
                    due.beating.extend((device_id, row) for row in live)
                    due.others += len(rows)
        except Exception as error:
            raise device_error(device_id, error) from error
        return due

    def read_others(self, device_ids: Collection[str]) -> Devices:
        self._read_all()
        return _sessions((device_id, rows) for device_id, rows in self._seen() if device_id not in device_ids)

    def another_device_is_live(self, device_ids: Collection[str]) -> bool:
        return any(device_id not in device_ids and has_live(rows) for device_id, rows in self._seen())

    def save(self, device_id: str, before: Sessions, after: Sessions) -> None:
        if before.keys() == after.keys() and all(before[session_id] is after[session_id] for session_id in after):
            return
        self._recent[device_id] = encode_entries(after) if after else None
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
        """The hash's remainder picks the group, so its quotient picks the bucket."""
        return crc32(device_id.encode()) // self._groups % BUCKETS


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
    return by_device(dict(devices), lambda _device_id, rows: decode_entries(rows))
