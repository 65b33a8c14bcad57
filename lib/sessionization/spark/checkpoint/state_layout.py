"""How the operator's state is laid out: one device per grouping key, or a group of devices."""

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

_DEVICES_PER_GROUP = 4_000
_LEAST_GROUPED = 2_000
_LEAST_GROUPS = 32


@dataclass(frozen=True, slots=True)
class StateLayout:
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


def device_groups_for(devices: int | None) -> int | None:
    """How many device groups suit so many devices, of which few have more than one session that is remembered.

    Four thousand a group (docs/performance.md), but no less than 32 groups, so that state partitions get about the same;
    for fewer than two thousand devices, or an unknown number, none.
    """
    if devices is None or devices < _LEAST_GROUPED:
        return None
    return max(_LEAST_GROUPS, -(-devices // _DEVICES_PER_GROUP))
