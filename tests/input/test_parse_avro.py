"""Messages in Avro become what the same messages in JSON become, and what cannot be decoded is quarantined."""

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.avro.registry import Registry
from sessionization.errors import ConfigurationError
from sessionization.spark.engine.error_text import remedy_for, root_cause
from sessionization.spark.input.avro_messages import check_registry, registry_of
from sessionization.spark.input.parse import parse
from tests.support.avro_lobby import FIRST, SCHEMAS, SECOND, content, framed, map_text, write_schemas
from tests.support.avro_wire import frame
from tests.support.certificates import pem_authority
from tests.support.event_maps import map_of
from tests.support.parsed import outcome, read_outcome
from tests.support.schema_registry import SchemaRegistry
from tests.support.wire import read
from tests.support.wire_cases import INGESTED, INGESTED_MS, LIMITS
from tests.support.wire_maps import HALL_CASES, ROOM_CASES, hall

pytestmark = pytest.mark.spark

MESSAGE = framed(hall("8c5e"), FIRST)
BROKEN = {
    "cut short": MESSAGE[:-1], "a byte too much": MESSAGE + b"\0", "no schema": frame(8, MESSAGE[5:]),
    "no value": frame(FIRST, b""), "no id": b"\0\0\0", "another schema": frame(SECOND, MESSAGE[5:]),
    "another first byte": b"\1" + MESSAGE[1:], "as large as may be": frame(FIRST, b"\2" * 65_531),
}  # fmt: skip


def test_messages_in_avro_become_what_they_are_in_json(spark: SparkSession, tmp_path: Path) -> None:
    write_schemas(tmp_path)
    cases = [
        (stream, value, expected)
        for stream, cases in (("halls", HALL_CASES), ("rooms", ROOM_CASES))
        for value, expected in cases.values()
    ]
    messages = [
        (stream, framed(value or b"", schema_id), expected)
        for stream, value, expected in cases
        for schema_id in SCHEMAS
    ]
    assert sum(message.startswith(b"\0") for _, message, _ in messages) > len(messages) * 0.8
    messages += [("halls", message, "malformed_json") for message in BROKEN.values()]
    messages += [("halls", MESSAGE + bytes(65_536), "oversized"), ("halls", None, "malformed_json")]
    rng = random.Random(3)
    messages += [("halls", _changed(message, rng), ...) for _, message, _ in messages[:-10] for _ in range(4)]
    rows = [(number, stream, INGESTED, message) for number, (stream, message, _) in enumerate(messages)]
    frame_of_rows = spark.createDataFrame(rows, "number int, stream string, ingested_at timestamp, value binary")
    event_map = map_of(map_text(tmp_path))
    parsed = parse(frame_of_rows, LIMITS, event_map, event_map.label_columns()).collect()
    found = {row.number: row for row in parsed}
    assert [found[number].value for number in range(len(rows))] == [message for _, message, _ in messages]
    events, differing = content(tmp_path), []
    for number, (stream, message, expected) in enumerate(messages):
        is_right = outcome(found[number]) == read_outcome(read(stream, message, INGESTED_MS, events))
        if isinstance(expected, dict):
            is_right &= expected == {field: found[number][field] for field in expected}
        elif isinstance(expected, str):
            is_right &= found[number].reason == expected
        if not is_right:
            differing.append((message, expected, found[number]))
    assert differing == []


def _changed(message: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(5, max(6, len(message)))
    return message[:at] + rng.randbytes(rng.randrange(3)) + message[at + rng.randrange(3) :]


def test_a_registry_that_refuses_a_task_is_one_line(spark: SparkSession) -> None:
    with SchemaRegistry() as served:
        served.answers[f"/schemas/ids/{FIRST}"] = 401, ""
        rows = spark.createDataFrame(
            [("halls", INGESTED, MESSAGE)], "stream string, ingested_at timestamp, value binary"
        )
        with pytest.raises(Exception, match="does not let this job in") as error:
            parse(rows, LIMITS, map_of(map_text(served.url))).collect()
    cause = root_cause(str(error.value))
    assert cause == (
        f"schema_registry {served.url} does not let this job in (401 Unauthorized): check its user and password"
    )
    assert remedy_for([f"query archive stopped: {cause}"]).startswith("nothing is lost: once the registry answers")


def test_secrets_and_certificates_are_filled_in(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, _ = pem_authority(tmp_path, "registry")
    monkeypatch.setenv("KEY", "ann")
    monkeypatch.setenv("SECRET", "4711")
    place = "{url: 'https://localhost:1', user: 'env:KEY', password: 'env:SECRET', ca_file: %s}"
    registry = registry_of(spark, map_of(map_text(place % authority)))
    assert registry == Registry("https://localhost:1", "ann", "4711", authority.read_text())
    with pytest.raises(ConfigurationError, match=r"^schema_registry https://localhost:1 does not answer"):
        check_registry(spark, map_of(map_text(place % authority)))
    (tmp_path / "no.pem").write_text("no certificate")
    for name, cause in (("none", "No such file"), ("no", ".*")):
        with pytest.raises(ConfigurationError, match=rf"^schema_registry.ca_file .*/{name}.pem is no file .*\({cause}"):
            registry_of(spark, map_of(map_text(place % (tmp_path / f"{name}.pem"))))
    monkeypatch.delenv("SECRET")
    with pytest.raises(ConfigurationError, match=r"^schema_registry.password: SECRET is not set: export it"):
        registry_of(spark, map_of(map_text(place % authority)))
