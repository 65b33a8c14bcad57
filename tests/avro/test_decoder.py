"""A framed message becomes JSON, a broken one nothing, and no bytes end the process."""

import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sessionization.avro.decoder import Decoder
from sessionization.avro.registry import Registry
from tests.support.avro_wire import encoded, frame, json_of

DEVICE = {"type": "record", "name": "Device", "fields": [{"name": "id", "type": "string"}]}
LONG = 1_763_726_400_250


def record(**types: Any) -> Any:
    fields = [{"name": name, "type": type_} for name, type_ in types.items()]
    return {"type": "record", "name": "games.Event", "fields": fields}


def logical(type_: str, name: str, **more: Any) -> Any:
    return {"type": type_, "logicalType": name, **more}


ANY = ["null", "boolean", "long", "double", "string"]
FIXED = {"type": "fixed", "name": "Raw", "size": 3}
MILLIS, MICROS, NANOS = (f"timestamp-{unit}" for unit in ("millis", "micros", "nanos"))
VALUES: dict[str, tuple[Any, Any, str]] = {  # schema, what is written (as the type without its logical type), JSON
    "a text": ("string", "ü", '"ü"'),
    "the largest number": ("long", 2**63 - 1, "9223372036854775807"),
    "a float that is no number": ("double", float("nan"), "null"),
    "a union": (["null", "string"], "a", '"a"'),
    "null": (["null", "string"], None, "null"),
    "bytes": ("bytes", b"\xff\0", '"ff00"'),
    "fixed": (FIXED, b"\1\2\3", '"010203"'),
    "an enum": ({"type": "enum", "name": "Kind", "symbols": ["START", "END"]}, "END", '"END"'),
    "a list": ({"type": "array", "items": "int"}, [1, 2], "[1,2]"),
    "a map": ({"type": "map", "values": DEVICE}, {"a": {"id": "x"}}, '{"a":{"id":"x"}}'),
    "a record": (DEVICE, {"id": "x"}, '{"id":"x"}'),
    "milliseconds": (logical("long", MILLIS), LONG, str(LONG)),
    "the last millisecond": (logical("long", MILLIS), 2**63 - 1, str(2**63 - 1)),
    "microseconds": (logical("long", MICROS), LONG * 1_000 + 999, str(LONG)),
    "nanoseconds": (logical("long", NANOS), LONG * 1_000_000 + 999_999, str(LONG)),
    "a union with microseconds": (["null", logical("long", MICROS)], LONG * 1_000, str(LONG)),
    "local time has no offset": (logical("long", "local-timestamp-millis"), LONG, '"2025-11-21T12:00:00.250000"'),
    "a uuid as it was written": (logical("string", "uuid"), "No UUID", '"No UUID"'),
    "days": (logical("int", "date"), 2**31 - 1, str(2**31 - 1)),
    "an unknown logical type": (logical("string", "country"), "DE", '"DE"'),
}
DECIMAL = logical("bytes", "decimal", precision=20, scale=2)


def without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [without_logical_types(one) for one in schema]
    return schema["type"] if isinstance(schema, dict) and "logicalType" in schema else schema


@pytest.fixture
def decoder(tmp_path: Path) -> Decoder:
    for number, (schema, _, _) in enumerate(VALUES.values()):
        (tmp_path / f"{number}.avsc").write_text(json.dumps(record(value=schema)))
    return Decoder(Registry(str(tmp_path)))


@pytest.mark.parametrize("name", VALUES)
def test_a_value_of_a_type_becomes_json(decoder: Decoder, name: str) -> None:
    schema, value, text = VALUES[name]
    written = encoded(record(value=without_logical_types(schema)), {"value": value})
    message = frame(list(VALUES).index(name), written)
    assert decoder.json_of(message) == f'{{"value":{text}}}'.encode()
    assert decoder.json_of(message + b"\0") is None
    assert decoder.json_of(message[:-1]) is None or not written


def test_a_decimal_keeps_its_digits(tmp_path: Path) -> None:
    (tmp_path / "1.avsc").write_text(json.dumps(record(value=DECIMAL)))
    message = frame(1, encoded(record(value=DECIMAL), {"value": Decimal("1763726400123456.70")}))
    assert Decoder(Registry(str(tmp_path))).json_of(message) == b'{"value":1763726400123456.70}'


def test_a_schema_of_no_record_and_one_of_several_records_are_read(tmp_path: Path) -> None:
    end = {"type": "record", "name": "End", "fields": [{"name": "at", "type": "long"}]}
    for number, schema in enumerate(("string", [DEVICE, end])):
        (tmp_path / f"{number}.avsc").write_text(json.dumps(schema))
    decoder = Decoder(Registry(str(tmp_path)))
    assert decoder.json_of(frame(0, b"\2a")) == b'"a"'
    assert decoder.json_of(frame(1, b"\0\2a")) == b'{"id":"a"}'
    assert decoder.json_of(frame(1, b"\2\2")) == b'{"at":1}'


def test_what_has_no_frame_stays_and_what_cannot_be_decoded_is_nothing(decoder: Decoder, tmp_path: Path) -> None:
    assert [decoder.json_of(message) for message in (None, b"", b"{}", b"\1")] == [None, b"", b"{}", b"\1"]
    assert [decoder.json_of(frame(0, b"")[:size]) for size in range(1, 6)] == [None] * 5
    assert decoder.unknown == set()
    (tmp_path / "90.avsc").write_text("{")
    (tmp_path / "91.avsc").write_text('{"type": "record"}')
    assert [decoder.json_of(frame(number, b"\2a")) for number in (90, 91, 92, 2**32 - 1)] == [None] * 4
    assert decoder.unknown == {90, 91, 92, 2**32 - 1}


@pytest.mark.parametrize("between", [["null", "games.Event"], {"type": "array", "items": "games.Event"}])
def test_a_schema_that_contains_itself_is_not_read(tmp_path: Path, between: Any) -> None:
    """Else a message nested some thousand times would end the process, again at every start."""
    (tmp_path / "1.avsc").write_text(json.dumps(record(inner=record(next=between) | {"name": "Inner"})))
    (tmp_path / "2.avsc").write_text(json.dumps(record(one=DEVICE, two="games.Device", three=["null", "games.Device"])))
    decoder = Decoder(Registry(str(tmp_path)))
    assert decoder.json_of(frame(1, b"\2" * 60_000)) is None
    assert decoder.json_of(frame(2, b"\2a\2b\0")) == b'{"one":{"id":"a"},"two":{"id":"b"},"three":null}'
    assert decoder.unknown == {1}


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "null"},
        {"type": "fixed", "name": "Nothing", "size": 0},
        {"type": "record", "name": "Empty", "fields": [{"name": "none", "type": "null"}]},
        {"type": "record", "name": "Endless", "fields": [{"name": "other", "type": "Endless"}]},
    ],
)
def test_a_list_of_values_without_bytes_is_not_read(tmp_path: Path, items: Any) -> None:
    """Else a message of ten bytes would fill the memory, again at every start."""
    (tmp_path / "1.avsc").write_text(json.dumps(record(all={"type": "array", "items": items})))
    (tmp_path / "2.avsc").write_text(json.dumps(record(all={"type": "array", "items": ["null", "long"]})))
    decoder = Decoder(Registry(str(tmp_path)))
    assert decoder.json_of(frame(1, encoded("long", 10**9) + b"\0")) is None
    assert decoder.json_of(frame(2, b"\4\0\2\2\0")) == b'{"all":[null,1]}'
    assert decoder.unknown == {1}


def test_a_schema_whose_parts_are_used_again_and_again_is_read_at_once(tmp_path: Path) -> None:
    inner: Any = DEVICE
    for level in range(40):
        name = f"Level{level}"
        of = inner if level == 0 else f"Level{level - 1}"
        fields = [{"name": "left", "type": inner}, {"name": "right", "type": "Device" if level == 0 else of}]
        inner = {"type": "record", "name": name, "fields": fields}
    (tmp_path / "1.avsc").write_text(json.dumps(inner))
    decoder = Decoder(Registry(str(tmp_path)))
    assert decoder.json_of(frame(1, b"")) is None
    assert decoder.unknown == set()


def test_a_schema_that_comes_later_is_found_then(tmp_path: Path) -> None:
    message, registry = frame(1, b"\2a"), Registry(str(tmp_path))
    assert Decoder(registry).json_of(message) is None
    (tmp_path / "1.avsc").write_text(json.dumps(DEVICE))
    assert Decoder(registry).json_of(message) == b'{"id":"a"}'
    (tmp_path / "1.avsc").unlink()
    assert Decoder(registry).json_of(message) == b'{"id":"a"}'


def test_changed_bytes_give_what_the_second_implementation_says(tmp_path: Path) -> None:
    schema = record(id=ANY, device={**DEVICE, "name": "D"}, at=["null", logical("long", MICROS)], flag="boolean")
    (tmp_path / "1.avsc").write_text(json.dumps(schema))
    plain = record(id=ANY, device={**DEVICE, "name": "D"}, at=["null", "long"], flag="boolean")
    decoder, rng, read = Decoder(Registry(str(tmp_path))), random.Random(5), 0
    for number in range(2_000):
        values = {"id": rng.choice([None, True, -number, 0.5, "ü"]), "device": {"id": "d" * (number % 70)}}
        message = frame(1, encoded(plain, values | {"at": number * LONG, "flag": False}))
        if number % 4:
            at = rng.randrange(5, len(message))
            message = message[:at] + rng.randbytes(rng.randrange(3)) + message[at + rng.randrange(3) :]
        expected, found = json_of(message, {1: schema}), decoder.json_of(message)
        assert json.loads(found or b"null") == json.loads(expected or b"null"), message
        read += found is not None
    assert 700 < read < 1_900
