"""The event map LOBBY with messages in Avro, of two schemas."""

import json
from pathlib import Path
from typing import Any

import yaml

from tests.support.avro_wire import Schemas, encoded, frame
from tests.support.event_maps import LOBBY
from tests.support.wire import Fields

FIRST, SECOND = 7, 2_000_000_000
_ANY = ["null", "boolean", "long", "double", "string"]
_MICROS = {"type": "long", "logicalType": "timestamp-micros"}


def _record(named: str, /, **types: Any) -> Any:
    return {"type": "record", "name": named, "fields": [{"name": field, "type": of} for field, of in types.items()]}


def _event(time: Any, **more: Any) -> Any:
    client, user = _record("Client", id=_ANY, os=_ANY), _record("User", id=_ANY, session=_ANY)
    return _record("Event", client=["null", client], user=["null", user], name=_ANY, visit=_ANY, time=time, **more)


SCHEMAS: Schemas = {FIRST: _event(_ANY), SECOND: _event(["null", "string", _MICROS, "double"], build="string")}
"""The second one has times in microseconds, and a field more."""
_WRITTEN = {FIRST: _event(_ANY), SECOND: _event(["null", "string", "long", "double"], build="string")}


def map_text(schema_registry: object) -> str:
    return f"{LOBBY}value: avro\nschema_registry: {schema_registry}\n"


def content(schema_registry: object) -> Fields:
    """The content of the map for the second implementation."""
    return yaml.safe_load(map_text(schema_registry)) | {"schemas": SCHEMAS}


def write_schemas(folder: Path) -> None:
    for schema_id, schema in SCHEMAS.items():
        (folder / f"{schema_id}.avsc").write_text(json.dumps(schema))


def framed(line: bytes, schema_id: int) -> bytes:
    """A JSON message in Avro; as it is where the schema has no place for it."""
    try:
        record = json.loads(line)
        if schema_id == SECOND and isinstance(record.get("time"), int):
            record["time"] *= 1_000
        return frame(schema_id, encoded(_WRITTEN[schema_id], record | {"build": "1.2"}))
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return line
