"""The tables equal those of a second implementation, after each of several runs over random weeks."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.core.session_state import Rules
from tests.support.core_driver import Driver
from tests.support.player_warehouse import PlayerWarehouse, without_heartbeats
from tests.support.player_weeks import RULES, Week, micro_batches
from tests.support.reference import Reference

pytestmark = pytest.mark.spark


def play(spark: SparkSession, folder: Path, weeks: list[Week], rules: Rules, zone: str, every: int) -> None:
    warehouse = PlayerWarehouse.create(spark, folder, zone)
    driver, reference = Driver(rules), Reference(rules)
    by_core, by_reference = [], []
    batches = list(micro_batches(weeks))
    for number, (now_ms, rows) in enumerate(batches, 1):
        by_core += without_heartbeats(driver.micro_batch(now_ms, rows))
        by_reference += without_heartbeats(reference.micro_batch(now_ms, rows))
        if number % every == 0 or number == len(batches):
            warehouse.stream(now_ms, by_core)
            warehouse.update()
            found = warehouse.differences(warehouse.oracle(by_reference))
            assert not found, "\n".join(sorted(found)[:10])
            by_core = []


def test_few_weeks(spark: SparkSession, tmp_path: Path) -> None:
    begins_ms = int(datetime(2025, 10, 22, tzinfo=UTC).timestamp()) * 1_000  # clocks change on the 26th
    play(spark, tmp_path, [Week(number, begins_ms) for number in range(4)], RULES, "Europe/Berlin", 70)
