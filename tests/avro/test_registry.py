"""Schemas come from a registry over HTTP or TLS; one that is away, refuses or is none is one line."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Timer

import pytest
from tenacity import stop_after_delay

from sessionization.avro.decoder import Decoder
from sessionization.avro.registry import Registry
from sessionization.errors import ConfigurationError
from tests.support.avro_wire import frame
from tests.support.certificates import pem_authority
from tests.support.schema_registry import SchemaRegistry

TEXT = '"string"'


@pytest.fixture
def served() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as served:
        served.add(7, "string")
        yield served


@pytest.fixture
def _no_patience() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Registry.schemas_for.retry, "stop", stop_after_delay(0))
        yield


def test_a_schema_is_found_by_its_id(served: SchemaRegistry) -> None:
    registry = Registry(f"{served.url}/")
    registry.check()
    assert registry.schemas_for(7) == [TEXT]
    assert registry.schemas_for(8) is None
    assert served.asked == ["/schemas/ids/0", "/schemas/ids/7", "/schemas/ids/8"]


def test_only_avro_is_read(served: SchemaRegistry) -> None:
    served.add(8, "string", schemaType="JSON")
    served.add(9, "string", schemaType="AVRO")
    assert [Registry(served.url).schemas_for(number) for number in (8, 9)] == [None, [TEXT]]


def test_a_schema_comes_after_those_that_it_refers_to(served: SchemaRegistry) -> None:
    def reference(subject: str) -> dict[str, object]:
        return {"name": "not used", "subject": subject, "version": 2}

    id_ = {"type": "record", "name": "games.Id", "fields": [{"name": "text", "type": "string"}]}
    device = {"type": "record", "name": "games.Device", "fields": [{"name": "id", "type": "games.Id"}]}
    served.answers["/subjects/ids%2Fgames/versions/2"] = 200, {"schema": json.dumps(id_)}
    device_answer = {"schema": json.dumps(device), "references": [reference("ids/games")]}
    served.answers["/subjects/devices/versions/2"] = 200, device_answer
    fields = [{"name": "device", "type": "games.Device"}, {"name": "id", "type": "games.Id"}]
    event = {"type": "record", "name": "Event", "fields": fields}
    served.add(8, event, references=[reference("devices"), reference("ids/games")])
    served.add(9, event, references=[reference("nowhere")])
    decoder = Decoder(Registry(served.url))
    assert decoder.json_of(frame(8, b"\2a\2b")) == b'{"device":{"id":{"text":"a"}},"id":{"text":"b"}}'
    assert decoder.json_of(frame(9, b"\2a\2b")) is None


def test_a_user_signs_in(served: SchemaRegistry) -> None:
    Registry(served.url, "ann", "pass:word").check()
    assert served.signed == {"Basic YW5uOnBhc3M6d29yZA=="}
    assert "pass" not in repr(Registry(served.url, "ann", "pass:word"))


@pytest.mark.usefixtures("_no_patience")
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((401, {"error_code": 40101}), "does not let this job in (401 Unauthorized): check its user and password"),
        ((403, ""), "does not let this job in (403 Forbidden): "),
        ((404, {"error_code": 404}), "is no schema registry (404 Not Found): check the URL"),
        ((404, "<html>"), "is no schema registry (404 Not Found): "),
        ((200, "<html>"), "is no schema registry (200 OK): "),
        ((200, {"id": 7}), "is no schema registry (200 OK): "),
        ((500, {"error_code": 50001}), "does not answer (500 Internal Server Error): is it up?"),
        ((429, ""), "does not answer (429 Too Many Requests): "),
    ],
)
def test_another_answer_is_one_line(served: SchemaRegistry, answer: tuple, message: str) -> None:
    served.answers |= {"/schemas/ids/0": answer, "/schemas/ids/7": answer}
    registry = Registry(served.url)
    for ask in (registry.check, lambda: registry.schemas_for(7)):
        with pytest.raises(ConfigurationError, match=f"^schema_registry {served.url} {re.escape(message)}"):
            ask()


@pytest.mark.usefixtures("_no_patience")
def test_a_registry_that_is_away_is_one_line(served: SchemaRegistry) -> None:
    served.stop()
    message = (
        rf"^schema_registry {served.url} does not answer \(.*Connection refused\): is it up, and the address right\?$"
    )
    with pytest.raises(ConfigurationError, match=message):
        Registry(served.url).check()
    with pytest.raises(ConfigurationError, match=message):
        Registry(served.url).schemas_for(7)
    served.start()


def test_a_registry_that_comes_back_is_waited_for(served: SchemaRegistry) -> None:
    served.stop()
    back = Timer(0.5, served.start)
    back.start()
    assert Registry(served.url).schemas_for(7) == [TEXT]
    back.join()


def test_tls_needs_the_authority_of_the_registry(tmp_path: Path) -> None:
    (authority, certificate), (other, _) = (pem_authority(tmp_path, name) for name in ("registry", "other"))
    with SchemaRegistry(certificate) as served:
        served.add(7, "string")
        registry = Registry(served.url, authorities=authority.read_text())
        registry.check()
        assert registry.schemas_for(7) == [TEXT]
        for given in (None, other.read_text()):
            with pytest.raises(
                ConfigurationError, match=r" that is not trusted \(.*\): name its .* schema_registry.ca"
            ):
                replace(registry, authorities=given).schemas_for(7)


def test_a_folder_has_a_file_for_each_schema(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text(TEXT)
    registry = Registry(str(tmp_path))
    registry.check()
    assert [registry.schemas_for(number) for number in (7, 8)] == [[TEXT], None]
    with pytest.raises(ConfigurationError, match=r"^schema_registry .*/no is no folder: create it, or write the URL"):
        Registry(str(tmp_path / "no")).check()
