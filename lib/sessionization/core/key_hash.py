"""The hash that places devices in groups and buckets, and spreads the timers of grouping keys: CRC-32 of UTF-8 text.

State is stored by it, so it never changes for a checkpoint. A sender who chooses device ids can choose ids of one
CRC-32, and so fill one bucket. The hash of a device id therefore has a secret key. `spark.checkpoint.state_layout` has
the same hashes as Spark columns; a test compares them.
"""

from hashlib import sha256
from zlib import crc32


def key_hash(key: str) -> int:
    """The hash of a grouping key, from 0 to 2**32 - 1.

    >>> key_hash("pc-1")
    1897812012
    """
    return crc32(key.encode())


def device_hash(device_id: str, hash_key: str) -> int:
    """The hash of a device id: the CRC-32 of the SHA-256 digest of the secret key followed by the device id.

    >>> device_hash("pc-1", "0123456789abcdef")
    3537589781
    """
    return key_hash(sha256((hash_key + device_id).encode()).hexdigest())


def device_group(device_hash: int, device_groups: int) -> int:
    """The group of a device: the remainder of its hash."""
    return device_hash % device_groups


def device_bucket(device_hash: int, device_groups: int, buckets: int) -> int:
    """The bucket of a device in its group: the quotient of its hash, because all of the group share the remainder."""
    return device_hash // device_groups % buckets
