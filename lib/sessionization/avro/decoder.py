"""From the frame of a schema registry to JSON: a byte 0, four bytes of the schema's id, and a value in Avro."""

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from io import BytesIO
from typing import Any, Final

import orjson
from fastavro import parse_schema, schemaless_reader
from fastavro.read import LOGICAL_READERS

from sessionization.avro.registry import Registry

FRAME: Final = b"\0"
"""How a framed message begins; no JSON text does."""
_HEADER_BYTES = 5
_KEPT = {"decimal", "local-timestamp-millis", "local-timestamp-micros"}
"""Logical types that are read. The others, such as uuid and timestamp-millis, stay the texts and numbers that they
are, so that no value of theirs makes a message unreadable.
"""
_PER_MS = {"timestamp-micros": 1_000, "timestamp-nanos": 1_000_000}
_OURS = "sessionization-"
_INSIDE = "value"


def _in_ms(units: int) -> Callable[[int, Any, Any], int]:
    return lambda value, _writer, _reader: value // units


for _name, _units in _PER_MS.items():  # under names of our own, because other code may share this process
    LOGICAL_READERS[f"long-{_OURS}{_name}"] = _in_ms(_units)

_read: dict[tuple[Registry, int], Any] = {}
"""The schemas of this process. A registry never changes the schema of an id."""


class Decoder:
    """Decodes messages. `unknown` are the ids met whose schema there is none of, or none that can be read."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.unknown: set[int] = set()

    def json_of(self, message: bytes | None) -> bytes | None:
        """The JSON text of a framed message; None if it cannot be decoded. A message without a frame stays as it is.

        Raises `ConfigurationError` where the registry is away for long, or refuses this user.
        """
        if message is None or not message.startswith(FRAME):
            return message
        if len(message) < _HEADER_BYTES:
            return None
        schema = self._schema(int.from_bytes(message[1:_HEADER_BYTES], "big"))
        if schema is None:
            return None
        body = BytesIO(message[_HEADER_BYTES:])
        try:
            record: Any = schemaless_reader(body, schema, None)
            text = orjson.dumps(record[_INSIDE], default=_as_json)
        except Exception:  # noqa: BLE001 - bytes that are not of the schema fail in any way
            return None
        return None if body.read(1) else text

    def _schema(self, schema_id: int) -> Any:
        key = self._registry, schema_id
        if key not in _read and schema_id not in self.unknown:
            schemas = self._registry.schemas_for(schema_id)
            parsed = None if schemas is None else _parsed(schemas)
            if parsed is None:
                self.unknown.add(schema_id)
            else:
                _read[key] = parsed
        return _read.get(key)


def _parsed(schemas: list[str]) -> Any:
    """The last schema, in a record, because the reader would parse a union anew for each message; None if unreadable.

    A record with one field has the bytes of that field. A schema that contains itself is not read: a message nested
    some thousand times would end the process.
    """
    named: dict[str, Any] = {}
    try:
        *others, last = (_with_our_types(json.loads(schema)) for schema in schemas)
        for schema in others:
            parse_schema(schema, named)
        record = {"type": "record", "name": f"{_OURS}message".replace("-", "_")}
        parsed = parse_schema(record | {"fields": [{"name": _INSIDE, "type": last}]}, named)
    except Exception:  # noqa: BLE001 - a schema that is none fails in any way
        return None
    return None if _contains_itself(parsed, named) else parsed


def _with_our_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_with_our_types(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = ("type", "items", "values", "fields")
    found = {name: _with_our_types(value) if name in inner else value for name, value in schema.items()}
    logical = found.pop("logicalType", None)
    if logical in _KEPT or logical in _PER_MS:
        found["logicalType"] = logical if logical in _KEPT else f"{_OURS}{logical}"
    return found


def _contains_itself(schema: Any, named: Mapping[str, Any], above: tuple[str, ...] = ()) -> bool:
    if isinstance(schema, list):
        return any(_contains_itself(one, named, above) for one in schema)
    if isinstance(schema, str):
        return schema in above or (schema in named and _contains_itself(named[schema], named, above))
    name = (*above, schema["name"]) if schema["type"] in ("record", "error") else above
    inner = [schema[key] for key in ("type", "items", "values") if key in schema]
    inner += [field["type"] for field in schema.get("fields", ())]
    return any(_contains_itself(one, named, name) for one in inner)


def _as_json(value: object) -> object:
    """What orjson does not know: bytes and fixed as hexadecimal digits, decimals with all of their digits."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return orjson.Fragment(format(value, "f"))
    raise TypeError
