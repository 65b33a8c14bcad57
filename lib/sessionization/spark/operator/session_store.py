"""The operator's state: the stored entries of the devices under a grouping key."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import orjson
from pyspark.sql.streaming import StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sessionization.core.events import SessionId
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.operator.stored_entries import STATE_SCHEMA, StateValue, StoredDevices, split_labels

STATE_NAME = "sessions"
LABELS = StructField("labels", StringType())
"""The last field of an entry where the job has label columns: their values as a JSON array.

A nullable field at the end is what a state that began without it can take. One text never needs another field, and
spares PySpark the conversion of a nested value.
"""

Updates = Mapping[str, Mapping[SessionId, StateValue | None]]
"""The entries to write, by device id and session id; None removes the entry."""


class SessionStore(Protocol):
    """State of the grouping key for which Spark is calling the processor. That is the `key` of each method.

    `store` after `load_all` may also bring the stored form in order, even without updates.
    """

    def load(self, key: str, device_ids: Collection[str]) -> StoredDevices | None:
        """Return the entries of these devices; None if the key has no entries at all, of whatever device."""

    def load_all(self, key: str) -> StoredDevices:
        """Return the entries of all devices of the key."""

    def store(self, key: str, updates: Updates) -> None:
        """Write these entries; all others stay as they are."""


class DeviceStore:
    """`MapState<session_id, entry>`; the grouping key is the device. A load is one state call, an update one too."""

    def __init__(self, handle: StatefulProcessorHandle, layout: StateLayout) -> None:
        session_id = StructField("session_id", StringType() if layout.has_text_ids else LongType())
        self._has_labels = bool(layout.labels)
        schema = StructType([*STATE_SCHEMA, LABELS]) if self._has_labels else STATE_SCHEMA
        self._entries = handle.getMapState(STATE_NAME, StructType([session_id]), schema)

    def load(self, key: str, device_ids: Collection[str]) -> StoredDevices | None:  # noqa: ARG002 - always the device
        return self.load_all(key) or None

    def load_all(self, key: str) -> StoredDevices:
        entries = [(session_id, *self._loaded(value)) for (session_id,), value in self._entries.iterator()]
        return {key: entries} if entries else {}

    def _loaded(self, stored: Sequence[Any]) -> Sequence[Any]:
        if not self._has_labels:
            return stored
        *fields, labels = stored
        return fields if labels is None else [*fields, orjson.loads(labels)]

    def _stored(self, value: StateValue) -> StateValue:
        if not self._has_labels:
            return value
        fields, labels = split_labels(value)
        return (*fields, None if labels is None else orjson.dumps(labels).decode())

    def store(self, key: str, updates: Updates) -> None:
        for session_id, value in updates.get(key, {}).items():
            if value is None:
                self._entries.removeKey((session_id,))
            else:
                self._entries.updateValue((session_id,), self._stored(value))
