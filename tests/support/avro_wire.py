"""Reads Avro messages in plain Python, from the specification alone, and writes frames: a second implementation.

It has no limits, and is for schemas whose named types are not used twice.
"""

import json
import re
import struct
from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_writer

Schemas = dict[int, Any]
"""By id, as a registry has them."""


def frame(schema_id: int, value: bytes) -> bytes:
    """Bytes of Avro in the frame of a registry."""
    return b"\0" + struct.pack(">I", schema_id) + value


def encoded(schema: Any, record: Any) -> bytes:
    written = BytesIO()
    schemaless_writer(written, parse_schema(schema), record)
    return written.getvalue()


def json_of(message: bytes, schemas: Schemas) -> bytes | None:
    """The value as JSON, which has no number that is none."""
    value = fields_of(message, schemas)
    return None if value is None else re.sub("-?Infinity|NaN", "null", json.dumps(value)).encode()


def fields_of(message: bytes, schemas: Schemas) -> Any:
    """The value of a framed message; None where there is no such schema, or the bytes are not of it."""
    schema = schemas.get(int.from_bytes(message[1:5], "big")) if len(message) >= 5 else None
    if schema is None:
        return None
    body = BytesIO(message[5:])
    try:
        value = _value(schema, body)
    except (EOFError, IndexError, ValueError, struct.error):
        return None
    return None if body.read(1) else value


def _value(schema: Any, body: BytesIO) -> Any:  # noqa: PLR0911 - one return per type
    if isinstance(schema, list):
        return _value(schema[_index(body, len(schema))], body)
    if isinstance(schema, str):
        schema = {"type": schema}
    match schema["type"]:
        case "null":
            return None
        case "boolean":
            return _bytes(body, 1) != b"\0"
        case "int" | "long":
            per_ms = {"timestamp-micros": 1_000}.get(schema.get("logicalType"), 1)
            return _long(body) // per_ms
        case "double":
            return struct.unpack("<d", _bytes(body, 8))[0]
        case "string":
            return _bytes(body, _long(body)).decode()
        case "record":
            return {field["name"]: _value(field["type"], body) for field in schema["fields"]}
        case inner:
            return _value(inner, body)


def _index(body: BytesIO, count: int) -> int:
    return range(count)[_long(body)]


def _long(body: BytesIO) -> int:
    found, shift = 0, 0
    while True:
        [byte] = _bytes(body, 1)
        found |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            found &= 2**64 - 1  # what a broken message has beyond is lost
            return (found >> 1) ^ -(found & 1)


def _bytes(body: BytesIO, count: int) -> bytes:
    found = body.read(count) if count >= 0 else b""
    if len(found) != count:
        raise EOFError
    return found
