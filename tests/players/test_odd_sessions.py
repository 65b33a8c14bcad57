"""Clocks wrong by years, odd names, a table that somebody dropped, no sessions at all: the tables stay right."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.core.events import Change, EndReason
from sessionization.players.due_days import note
from sessionization.players.players_job import create_player_tables
from sessionization.spark.tables.schemas import PLAYER_DAYS, SESSIONS
from tests.support.histories import HOUR
from tests.support.player_evening import DAY_MS, EVENING_MS, LATER_MS, late_end, session
from tests.support.player_warehouse import PlayerWarehouse

pytestmark = pytest.mark.spark


def hours_until(*day: int) -> float:
    return (datetime(*day, tzinfo=UTC).timestamp() * 1_000 - DAY_MS) / HOUR  # type: ignore[misc]


PAST, FUTURE = hours_until(1970, 1, 2), hours_until(2100, 1, 1)


def named(title: str, platform: str, changes: list[tuple[str, Change]]) -> list[tuple[str, Change]]:
    return [(device, change._replace(labels=(title,), platform=platform)) for device, change in changes]


SESSIONS_OF_THE_DAY = [
    *named("all", "all", session("a1", (10, 11), "ann")),
    *named("", "pc", session("a1", (10.5, 12), "ann", number=2)),
    *named("d'arts\"`%/=\u2028", "tv=/ '", session("b1", (11, 11.5), "a1")),
    *session("a1", (13, 14), number=3),
    *session("far ahead", (FUTURE, FUTURE + 1))[:1],
    *session("End far ahead", (-30, FUTURE), reason=EndReason.REPORTED),
    *session("far behind", (PAST, PAST + 1)),
]


def expect(warehouse: PlayerWarehouse) -> None:
    assert not warehouse.differences(warehouse.oracle())


def test_odd_sessions_a_dropped_table_and_no_sessions(spark: SparkSession, tmp_path: Path) -> None:
    warehouse = PlayerWarehouse.create(spark, tmp_path)
    warehouse.stream(EVENING_MS, SESSIONS_OF_THE_DAY)
    [line] = warehouse.update()
    assert line.startswith("7 days from 1970-01-01 to 2026-02-10 are computed")
    expect(warehouse)

    shutil.rmtree(warehouse.location.folder_of(PLAYER_DAYS.name))
    create_player_tables(spark, warehouse.location)
    warehouse.stream(LATER_MS, [late_end("a1", (10, 10.5), "ann")])
    warehouse.update()
    expect(warehouse)

    days = warehouse.location.read(spark.read, PLAYER_DAYS).select("day").distinct().collect()
    note(spark, warehouse.location, "erased", [row.day for row in days])
    spark.sql(f"DELETE FROM {warehouse.location.sql_name(SESSIONS.name)}")
    warehouse.changes = []
    warehouse.update()
    expect(warehouse)
