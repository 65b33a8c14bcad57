"""The hash that places devices in groups and buckets, and spreads the timers of grouping keys: CRC-32 of the UTF-8 text.

State is stored by it, so it never changes for a checkpoint. `spark.checkpoint.state_layout.key_hash_column` is the same hash
as a Spark column; a test compares the two.
"""

from zlib import crc32


def key_hash(key: str) -> int:
    """The hash of a device id or of a grouping key, from 0 to 2**32 - 1.

    >>> key_hash("pc-1")
    1897812012
    """
    return crc32(key.encode())


def device_group(device_id: str, device_groups: int) -> int:
    """The group of a device: the remainder of its hash."""
    return key_hash(device_id) % device_groups


def device_bucket(device_id: str, device_groups: int, buckets: int) -> int:
    """The bucket of a device within its group: the quotient of its hash, for the remainder is the same in all of the group."""
    return key_hash(device_id) // device_groups % buckets
