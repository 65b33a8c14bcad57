"""An erasure finds the messages of an account in Avro, decoded or not, and none of other accounts."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.ops.erase import _messages
from tests.support.avro_lobby import FIRST, SECOND, framed, map_text, write_schemas
from tests.support.avro_wire import frame
from tests.support.event_maps import map_of
from tests.support.wire_cases import INGESTED
from tests.support.wire_maps import HALL

pytestmark = pytest.mark.spark

ANN, NUMBER = "ann-4711", "4712"


def line(account: object, session: str = "s") -> bytes:
    return json.dumps(HALL | {"user": {"id": account, "session": session}}).encode()


THEIRS = {
    "the first schema": framed(line(ANN), FIRST),
    "the second schema": framed(line(ANN), SECOND),
    "a number": framed(line(int(NUMBER)), FIRST),
    "JSON": line(ANN),
    "cut short": framed(line(ANN), FIRST)[:-1],
    "an unknown schema": frame(9, framed(line(ANN), FIRST)[5:]),
    "between letters": frame(9, b"x" + ANN.encode() + b"y"),
    "without an account, of their session": framed(line(None, "theirs"), FIRST),
}
OTHERS = {
    "another account": framed(line("bob-4711"), FIRST),
    "a longer account": framed(line(ANN + "x"), FIRST),
    "their id as a session": framed(line("bob", ANN), FIRST),
    "another number": framed(line(47120), FIRST),
    "no account": framed(line(None), FIRST),
    "JSON": line("bob-4711"),
    "cut short": framed(line("bob-4711"), FIRST)[:-1],
}


def test_an_account_is_found_in_avro(spark: SparkSession, tmp_path: Path) -> None:
    write_schemas(tmp_path)
    values = [*THEIRS.values(), *OTHERS.values()]
    rows = [("halls", INGESTED.date(), INGESTED, value) for value in values]
    messages = spark.createDataFrame(rows, "stream string, ingest_date date, ingested_at timestamp, value binary")
    sessions = spark.createDataFrame([("c1", "theirs")], "device_id string, session_id string")
    found = _messages(messages, [ANN, NUMBER], sessions, map_of(map_text(tmp_path)))
    assert {bytes(row.value) for row in found.collect()} == set(THEIRS.values())
