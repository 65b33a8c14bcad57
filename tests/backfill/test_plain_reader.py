"""The backfill reads messages by whole columns of text, and gets the events that the stream's parser gets."""

import random
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyspark.sql import Row, SparkSession

from sessionization.backfill.plain_reader import PlainReader, read_events
from sessionization.spark.input.parse import EventTimeLimits, parse, valid_events
from tests.support.wire_cases import INGESTED, LIMITS, REASONS, at, end, wire

pytestmark = pytest.mark.spark

_MESSAGE = "stream string, ingested_at timestamp, value binary"
_STREAMS = ("pc_sessions", "console_sessions")
_EVENT_COLUMNS = ("device_id", "session_id", "is_start", "event_ms", "foreground_s", "account_id")
Message = tuple[str, object, bytes | None]

PLAIN = {
    "a Start": wire(),
    "an End": end(),
    "compact": wire().replace(b" ", b""),
    "both kinds of devices": wire(openPsid="ps-1"),
    "unknown fields": wire(pad="x", flag=True, nothing=None, more=-5),
    "no account": wire(psnAccountId=...),
    "an empty account": wire(psnAccountId=""),
    "no foreground time": end(totalFgTime=None),
    "another order": (
        b'{"timestamp":"2026-11-21T12:00:00Z","hostPcId":"a","eventId":"ApplicationSessionStart","appSessionId":1}'
    ),
    "no foreground": end(totalFgTime=...),
    "seconds only": wire(timestamp="2026-11-21T12:00:00Z"),
    "the last day of a month": wire(timestamp="2026-11-14T23:59:59.999Z"),
    "greatest of 18 digits": wire(appSessionId=10**18 - 1),
    "negative": wire(appSessionId=-7),
    "zero": wire(appSessionId=0),
    "a name as a value": wire(pad="timestamp:"),
    "white space around a device": wire(hostPcId=" a "),
    "a name as a value of its own": wire(pad="timestamp"),
    "an account that is null": wire(psnAccountId=None),
    "device id of 256 characters": wire(hostPcId="a" * 256),
}
NOT_PLAIN = {
    "escaped": wire(hostPcId="\u00e9"),
    "another alphabet": wire(hostPcId="\u00e9").decode("unicode_escape").encode(),
    "19 digits": wire(appSessionId=10**18),
    "minus zero": wire().replace(b": 7,", b": -0,"),
    "an offset": wire(timestamp="2026-11-21T13:00:00.250+01:00"),
    "a digit": wire(timestamp="2026-11-21T12:00:00.2Z"),
    "a leap day": wire(timestamp="2024-02-29T12:00:00Z"),
    "a field twice": wire().replace(b"{", b'{"appSessionId": 8, ', 1),
    "an account twice": wire().replace(b"{", b'{"psnAccountId": "bob", ', 1),
    "forty fields": wire(**{f"field{n}": n for n in range(36)}),
    "five thousand fields": wire(**{f"field{n}": n for n in range(5_000)}),
    "nested": wire(pad={"appSessionId": 8}),
    "a fraction": end(totalFgTime=42.0),
    "foreground of the wrong type": end(totalFgTime="42"),
    "negative foreground of a Start": wire(totalFgTime=-1),
    "a device that is white space": wire(hostPcId="  "),
    "other white space": wire().replace(b": ", b":\t"),
    "a line end behind": wire() + b"\r",
    "a millisecond too far ahead": wire(timestamp=at(600_001).replace("+00:00", "Z")),
}


def messages(values: Iterable[bytes | None]) -> list[Message]:
    return [(stream, INGESTED, value) for value in values for stream in _STREAMS]


def read_both_ways(
    spark: SparkSession, rows: list[Message], limits: EventTimeLimits = LIMITS
) -> tuple[Counter[Row], Counter[Row]]:
    archived = spark.createDataFrame(rows, _MESSAGE)
    return Counter(read_events(archived, limits).collect()), Counter(valid_events(parse(archived, limits)).collect())


def test_every_message_of_the_parser_tests_is_read_alike(spark: SparkSession) -> None:
    from_backfill, from_parser = read_both_ways(spark, messages(value for value, _ in REASONS.values()))
    assert from_backfill == from_parser
    assert from_backfill


def test_plain_and_other_messages_are_read_alike(spark: SparkSession) -> None:
    from_backfill, from_parser = read_both_ways(spark, messages([*PLAIN.values(), *NOT_PLAIN.values()]))
    assert from_backfill == from_parser


def test_event_times_at_the_limits_are_read_alike(spark: SparkSession) -> None:
    around = [limit_ms + by for limit_ms in (600_000, -7 * 86_400_000) for by in (-1, 0, 1)]
    rows = messages(wire(timestamp=at(ms).replace("+00:00", "Z")) for ms in around)
    rows = [(stream, INGESTED + timedelta(microseconds=999), value) for stream, _, value in rows]
    from_backfill, from_parser = read_both_ways(spark, rows)
    assert from_backfill == from_parser
    assert sum(from_backfill.values()) == 4


def test_messages_with_changed_bytes_are_read_alike(spark: SparkSession) -> None:
    """Thousands of damaged messages, each the first of its batch: the parser agrees with every one read without it."""
    rng = random.Random(8)
    whole = [*PLAIN.values(), *NOT_PLAIN.values()]
    values = [_changed(rng.choice(whole), rng) for _ in range(10_000)]
    rows = [(number, "pc_sessions", INGESTED, value) for number, value in enumerate(values)]
    parsed = parse(spark.createDataFrame(rows, f"number int, {_MESSAGE}"), LIMITS).where("reason IS NULL")
    events = {row.number: {name: row[name] for name in _EVENT_COLUMNS} for row in parsed.collect()}
    plain_events = {number: event for number, value in enumerate(values) if (event := _read_plainly(value)) is not None}
    assert plain_events == {number: events.get(number) for number in plain_events}
    assert len(plain_events) > 500
    assert len(events) > len(plain_events) + 100


def _changed(text: bytes, rng: random.Random) -> bytes:
    at_byte = rng.randrange(len(text))
    before, after = text[:at_byte], text[at_byte + 1 :]
    return rng.choice(
        [
            before + bytes([rng.choice(b'"\\{}[],:0123456789+-.eETZ aN\x00\x1f\x7f\xc3\xa9\xff')]) + after,
            before + after,
            before + text[at_byte : at_byte + 1] * 2 + after,
            before + rng.choice([b", ", b'"', b"}{", b'"appSessionId": 9, ']) + text[at_byte:],
        ]
    )


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_message_is_read_without_the_parser(name: str) -> None:
    assert _read_plainly(PLAIN[name]) is not None


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_a_message_that_is_not_plain_goes_to_the_parser(name: str) -> None:
    assert _read_plainly(NOT_PLAIN[name]) is None


def _read_plainly(value: bytes) -> dict[str, object] | None:
    instants = pa.array([INGESTED], pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_pydict({"stream": ["pc_sessions"], "ingested_at": instants, "value": [value]})
    [row] = [row for read in PlainReader(LIMITS)([batch]) for row in read.to_pylist()]
    assert row["value"] == (value if row["plain"] is None else None)
    return row["plain"]


def test_messages_of_more_forms_than_the_bound_are_read_alike(spark: SparkSession) -> None:
    """Each message has a field of its own, and broken ones come first: the parser reads those beyond the bound."""
    values = [*(b"{" for _ in range(10)), *(wire(appSessionId=n, **{f"field{n}": n}) for n in range(30))]
    from_backfill, from_parser = read_both_ways(spark, messages(values))
    assert from_backfill == from_parser
    assert sum(from_backfill.values()) == 30
