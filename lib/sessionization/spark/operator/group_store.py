"""The state of a group of devices, stored in buckets of devices."""

from collections.abc import Iterable, Iterator

import orjson
from pyspark.sql.streaming import StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sessionization.core.session_state import Sessions
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.operator.bucket import Bucket
from sessionization.spark.operator.codec import (
    StoredSessions,
    decode_entries,
    encode_entries,
    live_if_only_beating,
)
from sessionization.spark.operator.session_store import (
    STATE_NAME,
    Devices,
    DueSessions,
    SessionStore,
    device_error,
    map_devices,
)

BUCKETS = 64
"""The number of buckets in a device group. Like the groups, it never changes in a checkpoint."""
RECENT = -1
"""The bucket for devices that events have changed recently."""
_MAX_RECENT_DEVICES = 1_024
"""With more devices than this the recent bucket is emptied."""
_MAX_SINGLE_READS = 24
"""Up to this number buckets are read one by one; more are read all at once."""
_BUCKET = StructField("bucket", LongType())
_BUCKET_VALUE = StructType([StructField("devices", StringType())])


class GroupStore(SessionStore):
    """`MapState<bucket, devices>`.

    A group's devices are spread over buckets, and a bucket is one JSON text (`Bucket`). The devices of a bucket share
    a read and a write. PySpark need not convert nested columns, whose schema it would parse for every value.

    An event reads only its own bucket and the recent bucket. Changed devices go to the recent bucket, each with
    its present sessions, or null if it is forgotten. So all events of a micro-batch cost one write. A timer reads
    all buckets at once, and moves the recent devices to their own buckets. Events do the same when too many are
    recent.

    As long as the group remembers anything, the recent bucket is stored, be it empty. An event reads it anyway, and so
    knows whether the group was empty (`was_empty`).
    """

    def __init__(self, handle: StatefulProcessorHandle, layout: StateLayout) -> None:
        self._layout = layout
        self._buckets = handle.getMapState(STATE_NAME, StructType([_BUCKET]), _BUCKET_VALUE)
        self.select_key("")

    def select_key(self, key: str) -> None:
        self._key = key
        self._loaded: dict[int, Bucket] = {}
        self._recent: dict[str, StoredSessions | None] = {}
        self._stored_recent: int | None = None
        """The number of devices in the recent bucket as it is stored; None if it is not."""
        self._has_read_all = self._is_timer_run = self._is_changed = False

    def read(self, device_ids: Iterable[str]) -> Devices:
        numbers = {device_id: self._bucket_of(device_id) for device_id in device_ids}
        if len(set(numbers.values())) > _MAX_SINGLE_READS:
            self._read_all()
        else:
            self._load_bucket(RECENT, self._buckets.getValue((RECENT,)))
            for number in {number for device_id, number in numbers.items() if device_id not in self._recent}:
                self._load_bucket(number, self._buckets.getValue((number,)))
        found = ((device_id, self._stored_sessions(device_id, number)) for device_id, number in numbers.items())
        return _decode_devices((device_id, sessions) for device_id, sessions in found if sessions is not None)

    def read_due(self, closed_by_ms: int, opened_by_ms: int) -> DueSessions:
        self._read_all()
        self._is_timer_run = True
        due = DueSessions({})
        devices = list(self._loaded_devices())  # parsed here, so that a broken bucket is not a device's error
        device_id = None
        try:
            for device_id, sessions in devices:
                live = live_if_only_beating(sessions, closed_by_ms, opened_by_ms)
                if live is None:
                    due.devices[device_id] = decode_entries(sessions)
                else:
                    due.beating.extend((device_id, entry) for entry in live)
                    due.other_entries += len(sessions)
        except Exception as error:
            raise device_error(device_id, error) from error
        return due

    def was_empty(self) -> bool:
        return self._stored_recent is None

    def save(self, device_id: str, loaded: Sessions, updated: Sessions) -> None:
        if loaded.keys() == updated.keys() and all(loaded[session_id] is updated[session_id] for session_id in updated):
            return
        self._recent[device_id] = encode_entries(updated) if updated else None
        self._is_changed = True

    def flush(self) -> None:
        if self._recent and (self._is_timer_run or len(self._recent) > _MAX_RECENT_DEVICES):
            self._read_all()
            self._move_recent_devices()
        elif self._is_changed:
            self._write_recent()
        self._is_changed = False

    def _move_recent_devices(self) -> None:
        """Move the recent devices to their own buckets; all buckets have been read."""
        stored, changed = set(self._loaded), set()
        for device_id, sessions in self._recent.items():
            number = self._bucket_of(device_id)
            changed.add(number)
            if number not in self._loaded:
                self._loaded[number] = self._new_bucket(number, "{}")
            devices = self._loaded[number].devices()
            if sessions is None:
                devices.pop(device_id, None)
            else:
                devices[device_id] = sessions
        for number in changed:
            if devices := self._loaded[number].devices():
                self._write(number, devices)
                continue
            del self._loaded[number]
            if number in stored:
                self._buckets.removeKey((number,))
        self._recent = {}
        if self._loaded and self._stored_recent != 0:
            self._write_recent()
        elif not self._loaded and self._stored_recent is not None:
            self._buckets.removeKey((RECENT,))
            self._stored_recent = None

    def _read_all(self) -> None:
        if self._has_read_all:
            return
        recent = self._recent  # includes devices saved since the bucket was read, so it wins
        for (number,), value in self._buckets.iterator():
            self._load_bucket(number, value)
        self._recent |= recent
        self._has_read_all = True

    def _load_bucket(self, number: int, value: tuple[str] | None) -> None:
        if value is None:
            return
        bucket = self._new_bucket(number, value[0])
        if number == RECENT:
            self._recent = bucket.devices()
            self._stored_recent = len(self._recent)
        else:
            self._loaded[number] = bucket

    def _stored_sessions(self, device_id: str, number: int) -> StoredSessions | None:
        if device_id in self._recent:
            return self._recent[device_id]
        return self._loaded[number].get(device_id) if number in self._loaded else None

    def _loaded_devices(self) -> Iterator[tuple[str, StoredSessions]]:
        """Yield the devices of the loaded buckets, with their present sessions."""
        yield from ((device_id, sessions) for device_id, sessions in self._recent.items() if sessions is not None)
        for bucket in self._loaded.values():
            for device_id, sessions in bucket.devices().items():
                if device_id not in self._recent and sessions is not None:
                    yield device_id, sessions

    def _new_bucket(self, number: int, text: str) -> Bucket:
        return Bucket(f"group {self._key}, bucket {number}", text)

    def _write_recent(self) -> None:
        self._write(RECENT, self._recent)
        self._stored_recent = len(self._recent)

    def _write(self, number: int, devices: dict[str, StoredSessions | None]) -> None:
        self._buckets.updateValue((number,), (orjson.dumps(devices).decode(),))

    def _bucket_of(self, device_id: str) -> int:
        return self._layout.bucket_of(device_id, BUCKETS)


def _decode_devices(devices: Iterable[tuple[str, StoredSessions]]) -> Devices:
    """Decode the stored sessions of devices."""
    return map_devices(dict(devices), lambda _device_id, sessions: decode_entries(sessions))
