"""Rows that a Delta table has marked as deleted, read as the Delta protocol and the Roaring format specify them."""

import base64
import struct
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_UUID_LENGTH = 20
_MAGIC = 1_681_511_377
_COOKIE, _COOKIE_WITHOUT_RUNS = 12_347, 12_346
_OFFSETS_FROM = 4
_ARRAY_AT_MOST = 4_096
_BITMAP_BYTES = 8_192


def deleted_rows(table: Path, vector: dict[str, Any]) -> list[int]:
    """The row numbers of a file that its deletion vector, from the table's log, marks."""
    if vector["storageType"] == "i":
        content = _z85(vector["pathOrInlineDv"])
    else:
        assert vector["storageType"] == "u"
        name = vector["pathOrInlineDv"]
        folder, number = name[:-_UUID_LENGTH], uuid.UUID(bytes=_z85(name[-_UUID_LENGTH:]))
        stored = (table / folder / f"deletion_vector_{number}.bin").read_bytes()
        (size,) = struct.unpack_from(">i", stored, vector["offset"])
        content = stored[vector["offset"] + 4 :][:size]
    rows = list(_bitmaps(content))
    assert len(rows) == vector["cardinality"]
    return rows


def _z85(text: str) -> bytes:
    return base64.b85decode(text.encode().translate(bytes.maketrans(_Z85, _B85)))


def _bitmaps(content: bytes) -> Iterator[int]:
    magic, count = struct.unpack_from("<iq", content)
    assert magic == _MAGIC
    at = 12
    for _ in range(count):
        (high,) = struct.unpack_from("<I", content, at)
        low, at = _bitmap(content, at + 4)
        yield from (high << 32 | row for row in low)


def _bitmap(content: bytes, at: int) -> tuple[list[int], int]:
    """The numbers of one 32-bit Roaring bitmap, and where it ends."""
    (cookie,) = struct.unpack_from("<I", content, at)
    if cookie & 0xFFFF == _COOKIE:
        count, at = (cookie >> 16) + 1, at + 4
        with_runs = content[at : at + (count + 7) // 8]
        at += len(with_runs)
    else:
        assert cookie == _COOKIE_WITHOUT_RUNS
        (count,) = struct.unpack_from("<I", content, at + 4)
        with_runs, at = bytes((count + 7) // 8), at + 8
    containers = struct.unpack_from(f"<{2 * count}H", content, at)
    at += 4 * count
    if cookie == _COOKIE_WITHOUT_RUNS or count >= _OFFSETS_FROM:
        at += 4 * count
    numbers: list[int] = []
    for index in range(count):
        high, size = containers[2 * index] << 16, containers[2 * index + 1] + 1
        if with_runs[index // 8] >> index % 8 & 1:
            (runs,) = struct.unpack_from("<H", content, at)
            pairs = struct.unpack_from(f"<{2 * runs}H", content, at + 2)
            for first, more in zip(pairs[::2], pairs[1::2], strict=True):
                numbers += range(high + first, high + first + more + 1)
            at += 2 + 4 * runs
        elif size <= _ARRAY_AT_MOST:
            numbers += (high + low for low in struct.unpack_from(f"<{size}H", content, at))
            at += 2 * size
        else:
            bits = int.from_bytes(content[at : at + _BITMAP_BYTES], "little")
            numbers += (high + low for low in range(1 << 16) if bits >> low & 1)
            at += _BITMAP_BYTES
    return numbers, at
