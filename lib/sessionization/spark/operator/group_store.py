"""The state of a group of devices, stored in buckets of devices."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import orjson
from pyspark.sql.streaming import StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sessionization.core.session_state import Sessions
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.operator.bucket import Bucket
from sessionization.spark.operator.codec import decode_entries, encode_entries, has_live, live_if_only_beating
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

    While any session of the group is live the timer is the next grid instant. A bucket of many devices mostly has
    a live session, so an event seldom reads other buckets to set the timer.
    """

    def __init__(self, handle: StatefulProcessorHandle, layout: StateLayout) -> None:
        self._layout = layout
        self._buckets = handle.getMapState(STATE_NAME, StructType([_BUCKET]), _BUCKET_VALUE)
        self.select_key("")

    def select_key(self, key: str) -> None:
        self._key = key
        self._loaded: dict[int, Bucket] = {}
        self._recent: dict[str, Any] = {}
        self._has_read_all = self._is_timer_run = self._is_recent_stored = self._is_changed = False

    def read(self, device_ids: Iterable[str]) -> Devices:
        places = {device_id: self._bucket_of(device_id) for device_id in device_ids}
        if len(set(places.values())) > _MAX_SINGLE_READS:
            self._read_all()
        else:
            self._load_bucket(RECENT, self._buckets.getValue((RECENT,)))
            for bucket in {bucket for device_id, bucket in places.items() if device_id not in self._recent}:
                self._load_bucket(bucket, self._buckets.getValue((bucket,)))
        found = ((device_id, self._stored_sessions(device_id, bucket)) for device_id, bucket in places.items())
        return _decode_devices((device_id, rows) for device_id, rows in found if rows is not None)

    def read_all(self) -> Devices:
        return self.read_others(())

    def read_due(self, closed_by_ms: int, opened_by_ms: int) -> DueSessions:
        self._read_all()
        self._is_timer_run = True
        due = DueSessions({})
        device_id = None
        try:
            for device_id, rows in self._loaded_devices():
                live = live_if_only_beating(rows, closed_by_ms, opened_by_ms)
                if live is None:
                    due.devices[device_id] = decode_entries(rows)
                else:
                    due.beating.extend((device_id, row) for row in live)
                    due.other_entries += len(rows)
        except Exception as error:
            raise device_error(device_id, error) from error
        return due

    def read_others(self, device_ids: Collection[str]) -> Devices:
        self._read_all()
        return _decode_devices(
            (device_id, rows) for device_id, rows in self._loaded_devices() if device_id not in device_ids
        )

    def knows_other_live_device(self, device_ids: Collection[str]) -> bool:
        return any(device_id not in device_ids and has_live(rows) for device_id, rows in self._loaded_devices())

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
            self._write(RECENT, orjson.dumps(self._recent).decode())
            self._is_recent_stored = True
        self._is_changed = False

    def _move_recent_devices(self) -> None:
        """Move the recent devices to their own buckets; all buckets have been read."""
        stored, changed = set(self._loaded), set()
        for device_id, rows in self._recent.items():
            bucket = self._bucket_of(device_id)
            changed.add(bucket)
            devices = self._loaded.setdefault(bucket, self._new_bucket(bucket))
            if rows is None:
                devices.remove(device_id)
            else:
                devices.put(device_id, rows)
        for bucket in changed:
            if self._loaded[bucket]:
                self._write(bucket, self._loaded[bucket].text())
            elif bucket in stored:
                self._buckets.removeKey((bucket,))
        if self._is_recent_stored:
            self._buckets.removeKey((RECENT,))
        self._recent, self._is_recent_stored = {}, False

    def _read_all(self) -> None:
        if self._has_read_all:
            return
        recent = self._recent  # includes devices saved since the bucket was read, so it wins
        for (bucket,), value in self._buckets.iterator():
            self._load_bucket(bucket, value)
        self._recent |= recent
        self._has_read_all = True

    def _load_bucket(self, bucket: int, value: tuple[str] | None) -> None:
        if value is None:
            return
        loaded = self._new_bucket(bucket, value[0])
        if bucket == RECENT:
            self._recent, self._is_recent_stored = loaded.devices(), True
        else:
            self._loaded[bucket] = loaded

    def _stored_sessions(self, device_id: str, bucket: int) -> Any:
        if device_id in self._recent:
            return self._recent[device_id]
        return self._loaded[bucket].get(device_id) if bucket in self._loaded else None

    def _loaded_devices(self) -> Iterator[tuple[str, Any]]:
        """Yield the devices of the loaded buckets, with their present sessions."""
        for bucket in self._loaded.values():
            yield from (item for item in bucket.devices().items() if item[0] not in self._recent)
        yield from ((device_id, rows) for device_id, rows in self._recent.items() if rows is not None)

    def _new_bucket(self, bucket: int, text: str = "{}") -> Bucket:
        return Bucket(f"group {self._key}, bucket {bucket}", text)

    def _write(self, bucket: int, text: str) -> None:
        self._buckets.updateValue((bucket,), (text,))

    def _bucket_of(self, device_id: str) -> int:
        return self._layout.bucket_of(device_id, BUCKETS)


def _decode_devices(devices: Iterable[tuple[str, Any]]) -> Devices:
    """Decode the stored sessions of devices."""
    return map_devices(dict(devices), lambda _device_id, rows: decode_entries(rows))
