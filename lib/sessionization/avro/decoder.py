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
_IDS = range(1 << 31)
"""Registries count in this range. To a greater number they answer as if there were no such page."""
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
            schemas = self._registry.schemas_for(schema_id) if schema_id in _IDS else None
            parsed = None if schemas is None else _parsed(schemas)
            if parsed is None:
                self.unknown.add(schema_id)
            else:
                _read[key] = parsed
        return _read.get(key)


def _parsed(schemas: list[str]) -> Any:
    """The last schema, in a record, because the reader would parse a union anew for each message; None if unreadable.

    A record with one field has the bytes of that field. A schema that contains itself is not read: a message nested
    some thousand times would end the process. Nor is one with lists of values without bytes, such as null: a message of
    ten bytes could have a billion of them.
    """
    named: dict[str, Any] = {}
    try:
        *others, last = (_with_our_types(json.loads(schema)) for schema in schemas)
        for schema in others:
            parse_schema(schema, named)
        record = {"type": "record", "name": f"{_OURS}message".replace("-", "_")}
        parsed = parse_schema(record | {"fields": [{"name": _INSIDE, "type": last}]}, named)
        return None if _is_unbounded(parsed, named, set()) else parsed
    except Exception:  # noqa: BLE001 - a schema that is none fails in any way
        return None


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


def _is_unbounded(schema: Any, named: Mapping[str, Any], bounded: set[str], above: tuple[str, ...] = ()) -> bool:
    """Whether a schema contains itself, or lists of values without bytes; `bounded` are the names that do not."""
    if isinstance(schema, list):
        return any(_is_unbounded(one, named, bounded, above) for one in schema)
    if isinstance(schema, str):
        if schema in above:
            return True
        return schema in named and schema not in bounded and _is_unbounded(named[schema], named, bounded, above)
    if schema["type"] == "array" and _has_no_bytes(schema["items"], named):
        return True
    name = schema["name"] if schema["type"] in ("record", "error") else None
    inner = [schema[key] for key in ("type", "items", "values") if key in schema]
    inner += [field["type"] for field in schema.get("fields", ())]
    path = above if name is None else (*above, name)
    if any(_is_unbounded(one, named, bounded, path) for one in inner):
        return True
    if name is not None:
        bounded.add(name)
    return False


def _has_no_bytes(schema: Any, named: Mapping[str, Any]) -> bool:
    """Whether each value of a schema takes no byte; without end for a record that needs another one of itself."""
    if isinstance(schema, str):
        return schema == "null" or (schema in named and _has_no_bytes(named[schema], named))
    if isinstance(schema, list):
        return False
    if schema["type"] in ("record", "error"):
        return all(_has_no_bytes(field["type"], named) for field in schema["fields"])
    is_empty: bool = schema["type"] == "null" or schema.get("size") == 0
    return is_empty


def _as_json(value: object) -> object:
    """What orjson does not know: bytes and fixed as hexadecimal digits, decimals with all of their digits."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return orjson.Fragment(format(value, "f"))
    raise TypeError
