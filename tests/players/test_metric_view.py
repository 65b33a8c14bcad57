"""`MEASURE()` over each dimension of session_metrics equals plain Python, and a platform without it loses nothing."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import SparkSession

from sessionization.spark.tables import metric_views
from sessionization.spark.tables.metric_views import SESSION_DAYS, SESSION_METRICS, create_metric_views
from tests.support.core_driver import Driver
from tests.support.player_oracle import Part, parts_of
from tests.support.player_warehouse import PlayerWarehouse, without_heartbeats
from tests.support.player_weeks import RULES, Week, micro_batches

pytestmark = pytest.mark.spark

ZONE = "Europe/Berlin"
BEGINS_MS = int(datetime(2025, 10, 22, tzinfo=UTC).timestamp()) * 1_000  # clocks change on the 26th
MEASURES = (
    "players", "new_players", "returning_players", "sessions", "sessions_per_player", "play_ms", "foreground_ms",
    "ended", "length_p50_ms", "length_p90_ms", "share_without_end",
)  # fmt: skip
DIMENSIONS: dict[str, Callable[[Part], object]] = {
    "day": lambda part: part.day,
    "title": lambda part: part.session.title,
    "platform": lambda part: str(part.session.platform),
    "end_reason": lambda part: part.session.end_reason,
}


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlayerWarehouse]:
    """Two weeks at once; some sessions are still live."""
    played = PlayerWarehouse.create(spark, tmp_path_factory.mktemp("weeks"), ZONE)
    driver, changes = Driver(RULES), []
    for now_ms, rows in list(micro_batches([Week(number, BEGINS_MS) for number in range(2)]))[:150]:
        changes += without_heartbeats(driver.micro_batch(now_ms, rows))
    played.stream(now_ms, changes)
    played.update()
    for _ in range(2):  # the second time it replaces both
        create_metric_views(spark, played.location, pytest.fail)
    yield played
    for name in (SESSION_METRICS, SESSION_DAYS):
        spark.sql(f"DROP VIEW {name}")


def measures_of(parts: list[Part], first_days: dict[tuple[str, str], date]) -> tuple[Any, ...]:
    players = {part.session.player for part in parts}
    begun = [part.session for part in parts if part.starts_here]
    ended = [session for session in begun if session.end_reason is not None]
    lengths_ms = sorted(session.until_ms - session.started_ms for session in ended)
    return (
        len(players),
        len({part.session.player for part in parts if first_days[part.session.player] == part.day}),
        len({part.session.player for part in parts if first_days[part.session.player] != part.day}),
        len(begun),
        len(begun) / len(players) if players else None,
        sum(part.to_ms - part.from_ms for part in parts) if parts else None,
        sum(part.foreground_ms for part in parts) if parts else None,
        len(ended),
        lengths_ms[math.ceil(len(ended) * 5 / 10) - 1] if ended else None,
        lengths_ms[math.ceil(len(ended) * 9 / 10) - 1] if ended else None,
        sum(session.end_reason != "reported" for session in ended) / len(ended) if ended else None,
    )


@pytest.mark.parametrize("dimensions", [(), *((name,) for name in DIMENSIONS), tuple(DIMENSIONS)], ids=" ".join)
def test_measures_equal_plain_python(warehouse: PlayerWarehouse, dimensions: tuple[str, ...]) -> None:
    parts = [part for session in warehouse.played() for part in parts_of(session, ZoneInfo(ZONE))]
    first_days: dict[tuple[str, str], date] = {}
    for part in parts:
        first_days[part.session.player] = min(part.day, first_days.get(part.session.player, part.day))
    groups: dict[tuple[object, ...], list[Part]] = defaultdict(list)
    for part in parts:
        groups[tuple(DIMENSIONS[name](part) for name in dimensions)].append(part)
    expected = {key: measures_of(group, first_days) for key, group in groups.items()}
    measures = ", ".join(f"MEASURE({name})" for name in MEASURES)
    query = f"SELECT {''.join(f'{name}, ' for name in dimensions)}{measures} FROM {SESSION_METRICS}"
    if dimensions:
        query += f" GROUP BY {', '.join(dimensions)}"
    rows = [tuple(row) for row in warehouse.spark.sql(query).collect()]
    assert len(rows) == len(expected)
    assert {row[: len(dimensions)]: row[len(dimensions) :] for row in rows} == expected


def test_days_are_the_same_in_any_time_zone_of_the_session(warehouse: PlayerWarehouse) -> None:
    query = f"SELECT day, MEASURE(players), MEASURE(play_ms) FROM {SESSION_METRICS} GROUP BY day"
    conf, zone = warehouse.spark.conf, "spark.sql.session.timeZone"
    before, expected = conf.get(zone), set(warehouse.spark.sql(query).collect())
    conf.set(zone, "America/Los_Angeles")
    try:
        assert set(warehouse.spark.sql(query).collect()) == expected
    finally:
        conf.set(zone, before)


def test_without_a_session_there_is_no_number(warehouse: PlayerWarehouse) -> None:
    measures = ", ".join(f"MEASURE({name})" for name in MEASURES)
    (row,) = warehouse.spark.sql(f"SELECT {measures} FROM {SESSION_METRICS} WHERE day < '2025-01-01'").collect()
    assert tuple(row) == measures_of([], {})


def test_each_column_of_the_source_says_what_it_is(warehouse: PlayerWarehouse) -> None:
    assert all(field.metadata.get("comment") for field in warehouse.spark.table(SESSION_DAYS).schema)


def test_a_platform_without_metric_views_is_told_in_a_line(
    warehouse: PlayerWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metric_views, "with_names", lambda *_: "CREATE VIEW session_metrics WITH METRICS AS 1")
    lines: list[str] = []
    create_metric_views(warehouse.spark, warehouse.location, lines.append)
    (line,) = lines
    assert line.startswith("this platform does not take the metric view session_metrics: ")
    assert "\n" not in line
