"""The layout of the operator's state: one device per grouping key, or a group of devices."""

from dataclasses import dataclass, field

from pyspark.sql import Column
from pyspark.sql import functions as F

from sessionization.core.key_hash import device_bucket, device_group, device_hash

_DEVICES_PER_GROUP = 4_000
MIN_GROUPED_DEVICES = 2_000
_MIN_GROUPS = 32


@dataclass(frozen=True, slots=True)
class StateLayout:
    """The devices under one grouping key: one device, or with `device_groups` all devices of one hash group.

    The layout of a checkpoint never changes (docs/adr/0003-device-grouping.md). `hash_key` is the secret key of the
    hash that places devices in groups and buckets.
    """

    device_groups: int | None = None
    hash_key: str = field(default="", repr=False)

    def __str__(self) -> str:
        return "by device" if self.device_groups is None else f"in {self.device_groups:,} device groups"

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


def device_groups_for(devices: int | None) -> int | None:
    """Return the number of device groups for a number of devices.

    Few devices are expected to have more than one stored session. A group has four thousand devices
    (docs/performance.md). At least 32 groups give state partitions about the same load. Fewer than two thousand
    devices, or an unknown number, have no groups: None.
    """
    if devices is None or devices < MIN_GROUPED_DEVICES:
        return None
    return max(_MIN_GROUPS, -(-devices // _DEVICES_PER_GROUP))
