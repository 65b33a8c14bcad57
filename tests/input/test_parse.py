"""Every message becomes an event, or goes to quarantine with the first reason that fits."""

import pytest
from pyspark.sql import Row, SparkSession

from sessionization.spark.input.parse import parse, valid_events
from tests.support.wire_cases import INGESTED, INGESTED_MS, LIMITS, REASONS, end, wire

pytestmark = pytest.mark.spark


OPTIONAL_FIELDS: list[tuple[dict[str, object], str | None, int | None]] = [
    ({"psnAccountId": ...}, None, 42),
    ({"psnAccountId": ""}, None, 42),
    ({"psnAccountId": 5}, None, 42),
    ({"totalFgTime": ...}, "ann", None),
    ({"totalFgTime": "42"}, "ann", None),
    ({"totalFgTime": 42.0}, "ann", None),
    ({"totalFgTime": -0.5}, "ann", None),
    ({"totalFgTime": 2**63}, "ann", None),
    ({"totalFgTime": 0}, "ann", 0),
]
AFTER_NOON_MS = {
    "2026-11-21T12:00:00Z": 0,
    "2026-11-21T12:00:00.1Z": 100,
    "2026-11-21T12:00:00.0019999Z": 1,
    "2026-11-21T12:00:00.999999999999Z": 999,
    "2026-11-21T13:30:00.5+01:30": 500,
    "2026-11-21T12:00:00-00:00": 0,
    "2026-11-20T12:01:00-23:59": 0,
    "2026-11-22T11:59:00+23:59": 0,
}
"""By written event time: its milliseconds after 12:00 UTC on 2026-11-21."""
FULL_START, FULL_END = wire(totalFgTime=9), end(openPsid="ps-9", hostPcId="pc-1")


@pytest.fixture(scope="module")
def parsed(spark: SparkSession) -> dict[str, Row]:
    rows = [(name, "pc_sessions", INGESTED, value) for name, (value, _) in REASONS.items()]
    messages = spark.createDataFrame(rows, "name string, stream string, ingested_at timestamp, value binary")
    return {row.name: row for row in parse(messages, LIMITS).collect()}


@pytest.mark.parametrize("name", REASONS)
def test_a_message_is_an_event_or_has_the_first_reason_that_fits(parsed: dict[str, Row], name: str) -> None:
    assert parsed[name].reason == REASONS[name][1]


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> list[Row]:
    """The events of FULL_START, AFTER_NOON_MS, OPTIONAL_FIELDS and FULL_END, in this order."""
    on_pc = [FULL_START, *(wire(timestamp=written) for written in AFTER_NOON_MS)]
    on_pc += [end(**changes) for changes, _, _ in OPTIONAL_FIELDS]
    rows = [("pc_sessions", INGESTED, value) for value in on_pc] + [("console_sessions", INGESTED, FULL_END)]
    messages = spark.createDataFrame(rows, "stream string, ingested_at timestamp, value binary").coalesce(1)
    return valid_events(parse(messages, LIMITS)).collect()


def test_every_field_of_a_start_is_read(events: list[Row]) -> None:
    assert events[0] == Row(
        device_id="pc-1",
        session_id=7,
        is_start=True,
        event_ms=INGESTED_MS - 250,
        foreground_s=None,
        account_id="ann",
        platform="pc",
        ingested_ms=INGESTED_MS,
    )


def test_every_field_of_an_end_on_a_console_is_read(events: list[Row]) -> None:
    row = events[-1]
    assert (row.device_id, row.platform, row.is_start, row.foreground_s) == ("ps-9", "console", False, 42)


def test_an_event_time_is_read_in_milliseconds_in_utc(events: list[Row]) -> None:
    read_ms = [row.event_ms - (INGESTED_MS - 500) for row in events[1 : 1 + len(AFTER_NOON_MS)]]
    assert dict(zip(AFTER_NOON_MS, read_ms, strict=True)) == AFTER_NOON_MS


def test_an_optional_field_of_the_wrong_type_is_null(events: list[Row]) -> None:
    read = [(row.account_id, row.foreground_s) for row in events[1 + len(AFTER_NOON_MS) : -1]]
    assert read == [(account_id, foreground_s) for _, account_id, foreground_s in OPTIONAL_FIELDS]
