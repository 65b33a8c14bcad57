"""The layout of the operator's state: one device per grouping key, or a group of devices."""

from dataclasses import dataclass, field

from pyspark.sql import Column
from pyspark.sql import functions as F

from sessionization.core.events import SessionId
from sessionization.core.key_hash import device_bucket, device_group, device_hash


@dataclass(frozen=True, slots=True)
class StateLayout:
    """The devices under one grouping key: one device, or with `device_groups` all devices of one hash group.

    The layout of a checkpoint never changes (docs/adr/0003-device-grouping.md). `hash_key` is the secret key of the
    hash that places devices in groups and buckets.
    """

    device_groups: int | None = None
    hash_key: str = field(default="", repr=False)
    has_text_ids: bool = False
    """Whether session ids are text, not integers."""
    labels: tuple[str, ...] = ()
    """The columns of title and kept values, in the order in which the checkpoint came to know them; none ever goes."""

    def __str__(self) -> str:
        return "by device" if self.device_groups is None else f"in {self.device_groups:,} device groups"

    @property
    def session_id_type(self) -> str:
        """The type of the column `session_id`."""
        return "string" if self.has_text_ids else "bigint"

    def session_id_of(self, text: str) -> SessionId:
        """Read a session id that Spark has cast to a string."""
        return text if self.has_text_ids else int(text)

    @property
    def has_groups(self) -> bool:
        return self.device_groups is not None

    def grouping_key(self) -> Column:
        """Return the grouping key of an event as text, from the column `device_id`."""
        if self.device_groups is None:
            return F.col("device_id")
        return (self._device_hash() % self.device_groups).cast("string")

    def grouping_key_of(self, device_id: str) -> str:
        """Return the grouping key of a device, as `grouping_key` computes it."""
        if self.device_groups is None:
            return device_id
        return str(device_group(device_hash(device_id, self.hash_key), self.device_groups))

    def bucket_of(self, device_id: str, buckets: int) -> int:
        """Return the bucket of a device within its group."""
        assert self.device_groups is not None
        return device_bucket(device_hash(device_id, self.hash_key), self.device_groups, buckets)

    def _device_hash(self) -> Column:
        """Return `core.key_hash.device_hash` of the column `device_id`."""
        return F.crc32(F.sha2(F.concat(F.lit(self.hash_key), F.col("device_id")).cast("binary"), 256).cast("binary"))
