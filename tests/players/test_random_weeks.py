"""The tables equal those of a second implementation, after each of several runs over random weeks."""

import contextlib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.clock import utc
from sessionization.core.session_state import Rules
from sessionization.players.due_days import note
from tests.support.core_driver import Driver
from tests.support.player_oracle import player_sessions
from tests.support.player_warehouse import Boundaries, KilledError, PlayerWarehouse, without_heartbeats
from tests.support.player_weeks import RULES, WITH_SIGNS, Week, micro_batches
from tests.support.reference import Reference

pytestmark = pytest.mark.spark


def play(spark: SparkSession, folder: Path, weeks: list[Week], rules: Rules, zone: str, hours: int) -> None:
    """Play the weeks at once. Every so many hours of theirs the job runs, is killed at a boundary, and runs again.

    The tables follow the core; the oracle follows the reference, from the events on. What one device sends before the
    first run comes before the second one, as if a backfill merged it.
    """
    warehouse = PlayerWarehouse.create(spark, folder, zone)
    driver, reference = Driver(rules), Reference(rules)
    by_core, by_reference, runs, merged_later = [], [], 0, f"d{weeks[-1].number}-1"
    batches = list(micro_batches(weeks))
    for number, (now_ms, rows) in enumerate(batches, 1):
        by_core += without_heartbeats(driver.micro_batch(now_ms, rows))
        by_reference += without_heartbeats(reference.micro_batch(now_ms, rows))
        if number % hours == 0 or number == len(batches):
            runs += 1
            held_back = [change for change in by_core if change[0] == merged_later and runs == 1]
            warehouse.stream(now_ms, [change for change in by_core if change not in held_back])
            by_core = held_back
            if runs == 2:
                note(spark, warehouse.location, "merged", [utc(weeks[0].begins_ms).date()])
            with contextlib.suppress(KilledError):
                warehouse.update(Boundaries(3 + runs % 6))
            warehouse.update()
            expect(warehouse, [change for change in by_reference if runs > 1 or change[0] != merged_later])
    assert warehouse.player_sessions() == player_sessions(warehouse.played(by_reference))
    warehouse.erase(f"ann-{weeks[0].number}")
    warehouse.update()
    expect(warehouse)


def expect(warehouse: PlayerWarehouse, changes: list | None = None) -> None:
    found = warehouse.differences(warehouse.oracle(changes))
    assert not found, "\n".join(sorted(found)[:10])


def midnight(*day: int) -> int:
    return int(datetime(*day, tzinfo=UTC).timestamp()) * 1_000  # type: ignore[misc]


def test_a_few_weeks_with_a_day_of_25_hours(spark: SparkSession, tmp_path: Path) -> None:
    weeks = [Week(number, midnight(2025, 10, 22)) for number in range(4)]
    play(spark, tmp_path, weeks, RULES, "Europe/Berlin", 120)


@pytest.mark.long
@pytest.mark.parametrize(
    ("zone", "day", "rules"),
    [
        ("UTC", (2026, 2, 25), RULES),
        ("Europe/Berlin", (2025, 10, 22), RULES),
        ("America/New_York", (2026, 3, 4), WITH_SIGNS),  # 23 hours on the 8th
        ("Africa/Cairo", (2025, 4, 21), RULES),  # no midnight on the 25th
        ("Pacific/Kiritimati", (2024, 12, 27), WITH_SIGNS),  # 14 hours ahead
    ],
)
def test_two_hundred_weeks(spark: SparkSession, tmp_path: Path, zone: str, day: tuple, rules: Rules) -> None:
    first = sum(day) * 1_000
    play(spark, tmp_path, [Week(first + number, midnight(*day)) for number in range(40)], rules, zone, 60)
