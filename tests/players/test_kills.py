"""A run that is killed at any of its boundaries, is repeated, or has been out for a day: nothing is lost or doubled."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.errors import ConfigurationError
from tests.support.core_driver import Driver
from tests.support.player_warehouse import KEYS, Boundaries, KilledError, PlayerWarehouse, without_heartbeats
from tests.support.player_weeks import RULES, Week, micro_batches

pytestmark = pytest.mark.spark

BEGINS_MS = int(datetime(2026, 3, 25, tzinfo=UTC).timestamp()) * 1_000


LEAST_BOUNDARIES = 6
"""Before the note of the days, before each of the four tables, and before the end."""


def played_hours(hours: int) -> list:
    driver = Driver(RULES)
    batches = micro_batches([Week(number, BEGINS_MS) for number in range(3)])
    return [(now_ms, without_heartbeats(driver.micro_batch(now_ms, rows))) for now_ms, rows in batches][:hours]


def stream(warehouse: PlayerWarehouse, hours: list) -> None:
    warehouse.stream(hours[-1][0], [change for _, changes in hours for change in changes])


@pytest.mark.long
def test_a_run_that_is_killed_again_and_again_is_made_up_for_by_the_next_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    hours = played_hours(190)
    warehouse = PlayerWarehouse.create(spark, tmp_path)
    stream(warehouse, hours[:96])
    warehouse.update()
    first, was_killed = 96, 0
    while True:  # each time with some hours more
        stream(warehouse, hours[first : first + 5])
        first += 5
        try:
            warehouse.update(Boundaries(was_killed + 1))
        except KilledError:
            was_killed += 1
        else:
            break
    assert was_killed >= LEAST_BOUNDARIES
    assert warehouse.differences(warehouse.oracle()) == []
    before = {table: warehouse.rows(table) for table in KEYS}
    warehouse.update()
    assert {table: warehouse.rows(table) for table in KEYS} == before
    warehouse.time_zone = "Asia/Kolkata"
    with pytest.raises(ConfigurationError, match="--time-zone Asia/Kolkata: the days of the tables are of UTC: add"):
        warehouse.update()
    warehouse.update(rebuild=True)
    assert warehouse.differences(warehouse.oracle()) == []
