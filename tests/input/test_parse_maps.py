"""Messages of other event maps become events, are skipped or go to quarantine, as the map says."""

import random
import re
from pathlib import Path

import pytest
import yaml
from pyspark.sql import Row, SparkSession

from sessionization.event_map.reading import DEFAULT as DEFAULT_NAME
from sessionization.message_limits import SKIPPED
from sessionization.spark.input.parse import EVENT_COLUMNS, LABELS, parse, valid_events
from sessionization_simulator.malformed import possible_dirt
from tests.simulate.simulated import play, written
from tests.support.event_maps import ARCADE, HANDHELD, LOBBY, OFFSETS, PACKAGE, ROWS, map_of
from tests.support.parsed import outcome, read_outcome
from tests.support.samples import ACTIVITIES, MEANT, PRODUCTS, sample_of
from tests.support.wire import DEFAULT, REASONS_OF_MAPS, read
from tests.support.wire_cases import INGESTED, INGESTED_MS, LIMITS
from tests.support.wire_maps import CASES

pytestmark = pytest.mark.spark

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
        labels = map_of(text).label_columns()
        result = parse(messages, LIMITS, map_of(text), labels)
        assert result.columns == [*messages.columns, *EVENT_COLUMNS, *([LABELS] if labels else []), "reason"]
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


EVENINGS = PACKAGE | {"arcade": ARCADE, "handheld": HANDHELD, "lobby": LOBBY, "offsets": OFFSETS, "rows": ROWS}


@pytest.mark.parametrize("name", EVENINGS)
def test_an_evening_of_dirt_and_of_changed_bytes_becomes_what_the_second_implementation_says(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    content, events = DEFAULT if name == DEFAULT_NAME else yaml.safe_load(EVENINGS[name]), map_of(EVENINGS[name])
    (tmp_path / "map.yml").write_text(EVENINGS[name])
    given = str(tmp_path / "map.yml")
    play(tmp_path / "out", now_ms=INGESTED_MS, rate=8, duration="120s", session_length="20s", dirt=0.8, events=given)
    lines = [(line.stream, line.line) for line in written(tmp_path / "out")]
    rng = random.Random(7)
    lines += [(stream, changed_at_random(line, rng)) for stream, line in lines if len(line) < 1_000]
    rows = [(stream, INGESTED, line) for stream, line in lines]
    frame = spark.createDataFrame(rows, "stream string, ingested_at timestamp, value binary")
    found = [outcome(row) for row in parse(frame, LIMITS, events, events.label_columns()).collect()]
    expected = [read_outcome(read(stream, line, INGESTED_MS, content)) for stream, line in lines]
    assert [(line, *both) for line, *both in zip(lines, found, expected, strict=True) if both[0] != both[1]] == []
    assert {one for one in expected if isinstance(one, str)} == REASONS_OF_MAPS & set(possible_dirt(events))
    assert (None in expected) is events.may_skip(has_activity=False)


@pytest.mark.parametrize("other_events", ["quarantine", "skip"])
def test_with_an_inactivity_timeout_activities_are_events(spark: SparkSession, other_events: str) -> None:
    """Each case of the map as it is, and as an Activity."""
    content = yaml.safe_load(HANDHELD) | {"other_events": other_events}
    events = map_of(yaml.safe_dump(content))
    rows = [
        (stream, value) for (text, stream), cases in CASES.items() if text == HANDHELD for value, _ in cases.values()
    ]
    rows += [(stream, re.sub(rb'("kind": *)"(open|close)"', rb'\1"ping"', value or b"")) for stream, value in rows]
    frame = spark.createDataFrame(
        [(stream, INGESTED, value) for stream, value in rows], "stream string, ingested_at timestamp, value binary"
    )
    for has_activity in (False, True):
        parsed = parse(frame, LIMITS, events, events.label_columns(), has_activity=has_activity)
        found = [outcome(row) for row in parsed.collect()]
        said = [read(stream, value, INGESTED_MS, content, has_activity=has_activity) for stream, value in rows]
        expected = [read_outcome(one) for one in said]
        assert [row for row in zip(rows, found, expected, strict=True) if row[1] != row[2]] == []
        activities = [one for one in found if isinstance(one, dict) and one["is_start"] is None]
        assert (len(activities) > 10) == has_activity
        assert (None in found) is events.may_skip(has_activity=has_activity)


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_sample_of_a_product_becomes_what_its_documentation_means(
    spark: SparkSession, tmp_path: Path, product: str
) -> None:
    sample = sample_of(product, tmp_path)
    stream, lines = sample.parent.name, sample.read_bytes().splitlines()
    frame = spark.createDataFrame(
        [(stream, INGESTED, line) for line in lines], "stream string, ingested_at timestamp, value binary"
    )
    events = map_of(PACKAGE[product])
    found = [outcome(row) for row in parse(frame, LIMITS, events, events.label_columns()).collect()]
    content = yaml.safe_load(PACKAGE[product])
    assert found == [read_outcome(read(stream, line, INGESTED_MS, content)) for line in lines]
    meant = MEANT[product]
    for one, fields in zip(found, meant, strict=False):
        assert one == (None if fields is None else {**one, **fields})

    parsed = parse(frame, LIMITS, events, events.label_columns(), has_activity=True)
    with_activity = [outcome(row) for row in parsed.collect()]
    said = [read(stream, line, INGESTED_MS, content, has_activity=True) for line in lines]
    assert with_activity == [read_outcome(one) for one in said]
    examples = enumerate(with_activity[: len(meant)])
    assert [at for at, one in examples if isinstance(one, dict) and one["is_start"] is None] == ACTIVITIES[product]


def changed_at_random(line: bytes, rng: random.Random) -> bytes:
    changed = bytearray(line)
    at = rng.randrange(len(line))
    changed[at : at + rng.randrange(2)] = rng.choice(
        (b"", b'"', b"{", b",", b":", b"0", b"-", b"e1", b".", b" ", b"\xff", b"\\")
    )
    return bytes(changed)


def test_a_label_column_that_the_map_does_not_have_is_null(spark: SparkSession) -> None:
    value = CASES[ARCADE, "arcade"]["a title and kept values"][0]
    messages = spark.createDataFrame(
        [("arcade", INGESTED, value)], "stream string, ingested_at timestamp, value binary"
    )
    [row] = valid_events(parse(messages, LIMITS, map_of(ARCADE), ("build", "os", "title", "order"))).collect()
    assert row.labels == [None, "PS5", "chess", None]
