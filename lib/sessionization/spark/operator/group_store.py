"""The state of a group of devices, stored in buckets of devices."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson
from pyspark.sql.streaming import StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sessionization.core.events import SessionId
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.operator.bucket import Bucket, BucketDevices
from sessionization.spark.operator.session_store import STATE_NAME, Updates
from sessionization.spark.operator.stored_entries import StateValue, StoredDevices, StoredEntry, split_labels

BUCKETS = 64
"""The number of buckets in a device group. Like the groups, it never changes in a checkpoint."""
RECENT = -1
"""The bucket for devices that events have changed recently."""
_MAX_RECENT_DEVICES = 1_024
"""With more devices than this the recent bucket is emptied, where no micro-batch has very many."""
_MICRO_BATCHES_RECENT, _MOST_RECENT_DEVICES = 4, 8_192
"""Where one has, the recent bucket may hold the devices of this many micro-batches, up to this number of devices.

Otherwise each micro-batch would empty it, and write all buckets.
"""
_MAX_SINGLE_READS = 24
"""Up to this number buckets are read one by one; more are read all at once."""
_BUCKET = StructField("bucket", LongType())
_BUCKET_VALUE = StructType([StructField("devices", StringType())])


class GroupStore:
    """`MapState<bucket, devices>`.

    A group's devices are spread over buckets, and a bucket is one JSON text (`Bucket`). The devices of a bucket share
    a read and a write. A text spares PySpark the nested columns, whose schema it would parse for every value.

    An event reads only its own bucket and the recent bucket. Changed devices go to the recent bucket, each with
    its present entries, or null if it is forgotten. So all events of a micro-batch cost one write. A timer reads
    all buckets at once, and moves the recent devices to their own buckets. Events do the same when too many are
    recent.

    As long as the group remembers anything, the recent bucket is stored, be it empty. An event reads it anyway, and so
    knows whether anything is stored.
    """

    def __init__(self, handle: StatefulProcessorHandle, layout: StateLayout) -> None:
        self._layout = layout
        self._buckets = handle.getMapState(STATE_NAME, StructType([_BUCKET]), _BUCKET_VALUE)
        self._group: _Group | None = None
        """What was loaded last, so that `store` need not read it again."""

    def load(self, key: str, device_ids: Collection[str]) -> StoredDevices | None:
        max_recent = max(_MAX_RECENT_DEVICES, min(_MICRO_BATCHES_RECENT * len(device_ids), _MOST_RECENT_DEVICES))
        self._group = _Group(key, self._buckets, self._layout, max_recent)
        return self._group.read(device_ids)

    def load_all(self, key: str) -> StoredDevices:
        # So that `store` empties the recent bucket.
        self._group = _Group(key, self._buckets, self._layout, max_recent=0)
        return self._group.read_all()

    def store(self, key: str, updates: Updates) -> None:
        if self._group is None or self._group.key != key:
            self.load(key, updates.keys())
        group, self._group = self._group, None
        assert group is not None
        group.write(updates)


class _Group:
    """A group's buckets, from the first read up to `write`."""

    def __init__(self, key: str, state: Any, layout: StateLayout, max_recent: int) -> None:
        """With more than `max_recent` devices in it `write` empties the recent bucket."""
        self.key = key
        self._state, self._layout, self._max_recent = state, layout, max_recent
        self._buckets: dict[int, Bucket] = {}
        self._has_all_buckets = False
        self._recent: BucketDevices = {}
        self._stored_recent: int | None = None
        """The number of devices in the recent bucket as it is stored; None if it is not."""
        self._devices: dict[str, Sequence[StoredEntry]] = {}
        """The entries of the devices that were read."""

    def read(self, device_ids: Collection[str]) -> StoredDevices | None:
        homes = {device_id: self._home(device_id) for device_id in device_ids}
        if len(set(homes.values())) > _MAX_SINGLE_READS:
            self._read_all_buckets()
        elif not self._has_all_buckets:
            self._read_bucket(RECENT, self._state.getValue((RECENT,)))
            for number in {number for device_id, number in homes.items() if device_id not in self._recent}:
                self._read_bucket(number, self._state.getValue((number,)))
        for device_id, number in homes.items():
            if device_id in self._recent:
                stored = self._recent[device_id]
            else:
                stored = self._buckets[number].get(device_id) if number in self._buckets else None
            self._devices[device_id] = stored or ()
        return None if self._stored_recent is None else self._devices

    def read_all(self) -> StoredDevices:
        self._read_all_buckets()
        devices: BucketDevices = {}
        for bucket in self._buckets.values():
            devices |= bucket.devices()
        devices |= self._recent
        self._devices = {device_id: stored for device_id, stored in devices.items() if stored}
        return self._devices

    def write(self, updates: Updates) -> None:
        if unread := updates.keys() - self._devices.keys():
            self.read(unread)
        for device_id, entries in updates.items():
            self._recent[device_id] = _updated(self._devices[device_id], entries)
        if len(self._recent) > self._max_recent:
            self._move_recent_devices()
        elif updates:
            self._write_bucket(RECENT, self._recent)

    def _move_recent_devices(self) -> None:
        """Write the recent devices to their own buckets, and empty the recent bucket."""
        self._read_all_buckets()
        moved: defaultdict[int, BucketDevices] = defaultdict(dict)
        for device_id, stored in self._recent.items():
            moved[self._home(device_id)][device_id] = stored
        numbers = set(self._buckets)
        for number, recent in moved.items():
            devices = self._buckets[number].devices() | recent if number in numbers else recent
            if remaining := {device_id: stored for device_id, stored in devices.items() if stored}:
                self._write_bucket(number, remaining)
                numbers.add(number)
            elif number in numbers:
                self._state.removeKey((number,))
                numbers.remove(number)
        if numbers and self._stored_recent != 0:
            self._write_bucket(RECENT, {})
        elif not numbers and self._stored_recent is not None:
            self._state.removeKey((RECENT,))

    def _read_all_buckets(self) -> None:
        if self._has_all_buckets:
            return
        recent = self._recent  # the stored ones with what was changed here, so newer than what is read now
        for (number,), value in self._state.iterator():
            self._read_bucket(number, value)
        self._recent |= recent
        self._has_all_buckets = True

    def _read_bucket(self, number: int, value: tuple[str] | None) -> None:
        if value is None:
            return
        bucket = Bucket(f"group {self.key}, bucket {number}", value[0])
        if number == RECENT:
            self._recent = dict(bucket.devices())
            self._stored_recent = len(self._recent)
        else:
            self._buckets[number] = bucket

    def _write_bucket(self, number: int, devices: Mapping[str, list[StoredEntry] | None]) -> None:
        self._state.updateValue((number,), (orjson.dumps(devices).decode(),))

    def _home(self, device_id: str) -> int:
        return self._layout.bucket_of(device_id, BUCKETS)


def _updated(stored: Sequence[StoredEntry], updates: Mapping[SessionId, StateValue | None]) -> list[StoredEntry] | None:
    """Return a device's entries after updates, None if none is left."""
    entries: dict[SessionId, StoredEntry] = {entry[0]: entry for entry in stored}
    for session_id, value in updates.items():
        if value is None:
            entries.pop(session_id, None)
        else:
            entries[session_id] = _without_last_nulls((session_id, *value))
    return list(entries.values()) or None


def _without_last_nulls(entry: StoredEntry) -> StoredEntry:
    """Leave out the last nulls, before the labels: they would be a sixth of the text of a live session."""
    fields, labels = split_labels(entry)
    end = len(fields)
    while fields[end - 1] is None:  # the session id never is
        end -= 1
    return fields[:end] if labels is None else [*fields[:end], labels]
