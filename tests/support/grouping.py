"""Where a job with `--device-groups` stores a device's sessions, as docs/state.md describes it."""

from hashlib import sha256
from zlib import crc32

_BUCKETS = 64


def group_of(groups: int, device_id: str, hash_key: str = "") -> str:
    """The grouping key of a device with `--device-groups`."""
    return str(_device_hash(device_id, hash_key) % groups)


def bucket_of(groups: int, device_id: str, hash_key: str = "") -> tuple[int, int]:
    """The group and the bucket that store a device's sessions with `--device-groups`."""
    bucket, group = divmod(_device_hash(device_id, hash_key), groups)
    return group, bucket % _BUCKETS


def _device_hash(device_id: str, hash_key: str) -> int:
    return crc32(sha256((hash_key + device_id).encode()).hexdigest().encode())
