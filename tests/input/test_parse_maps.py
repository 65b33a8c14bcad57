"""Messages of other event maps become events, are skipped or go to quarantine, as the map says."""

from dataclasses import asdict
from typing import Any

import pytest
import yaml
from pyspark.sql import Row, SparkSession

from sessionization.core.events import Start
from sessionization.message_limits import SKIPPED
from sessionization.spark.input.parse import EVENT_COLUMNS, parse, valid_events
from tests.support.event_maps import ARCADE, HANDHELD, OFFSETS, map_of
from tests.support.wire import read
from tests.support.wire_cases import INGESTED, INGESTED_MS, LIMITS
from tests.support.wire_maps import ARCADE_CASES, OFFSET_CASES, PHONE_CASES, TABLET_CASES, Case

pytestmark = pytest.mark.spark

CASES: dict[tuple[str, str], dict[str, Case]] = {
    (ARCADE, "arcade"): ARCADE_CASES,
    (HANDHELD, "phones"): PHONE_CASES,
    (HANDHELD, "tablets"): TABLET_CASES,
    (OFFSETS, "games"): OFFSET_CASES,
}
NAMED = [(text, stream, name) for (text, stream), cases in CASES.items() for name in cases]
IDS = [f"{stream}: {name}" for _, stream, name in NAMED]


@pytest.fixture(scope="module")
def parsed(spark: SparkSession) -> dict[tuple[str, str], Row]:
    """What each case becomes."""
    found = {}
    for text in dict.fromkeys(text for text, _ in CASES):
        rows = [
            (name, stream, INGESTED, value)
            for (of, stream), cases in CASES.items()
            if of == text
            for name, (value, _) in cases.items()
        ]
        messages = spark.createDataFrame(rows, "name string, stream string, ingested_at timestamp, value binary")
        result = parse(messages, LIMITS, map_of(text))
        assert result.columns == [*messages.columns, *EVENT_COLUMNS, "reason"]
        valid = valid_events(result).count()
        all_rows = result.collect()
        assert valid == sum(row.reason is None for row in all_rows)
        found |= {(row.stream, row.name): row for row in all_rows}
    return found


@pytest.mark.parametrize(("text", "stream", "name"), NAMED, ids=IDS)
def test_a_message_of_a_map_becomes_what_the_map_says(
    parsed: dict[tuple[str, str], Row], text: str, stream: str, name: str
) -> None:
    row, expected = parsed[stream, name], CASES[text, stream][name][1]
    if isinstance(expected, dict):
        assert row.reason is None
        assert {field: row[field] for field in expected} == expected
    else:
        assert row.reason == (SKIPPED if expected is None else expected)


@pytest.mark.parametrize(("text", "stream", "name"), NAMED, ids=IDS)
def test_the_second_implementation_says_the_same(
    parsed: dict[tuple[str, str], Row], text: str, stream: str, name: str
) -> None:
    value = CASES[text, stream][name][0]
    assert outcome(parsed[stream, name]) == read_outcome(read(stream, value, INGESTED_MS, yaml.safe_load(text)))


def outcome(row: Row) -> Any:
    if row.reason is not None:
        return None if row.reason == SKIPPED else row.reason
    return {name: row[name] for name in EVENT_COLUMNS}


def read_outcome(found: Any) -> Any:
    if not isinstance(found, tuple):
        return found
    device_id, event = found
    is_start = isinstance(event, Start)
    fields = {"foreground_s": None} | asdict(event)
    return {
        "device_id": device_id,
        "session_id": fields["session_id"],
        "is_start": is_start,
        "event_ms": fields["at_ms"],
        "foreground_s": fields["foreground_s"],
        "account_id": fields["account_id"],
        "platform": fields["platform"],
        "ingested_ms": fields["ingested_ms"],
    }
