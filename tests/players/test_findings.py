"""Findings: seeded players have exactly those expected, others none; a late End withdraws one."""

from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from sessionization.core.events import EndReason
from sessionization.spark.tables.schemas import FINDING_LIMITS, SESSION_FINDINGS
from tests.support.histories import HOUR
from tests.support.player_evening import EVENING_MS, LATER_MS, late_end, session
from tests.support.player_warehouse import PlayerWarehouse

pytestmark = pytest.mark.spark

EVENING = [
    *session("clean", (10, 11), "cleo", foreground_s=3_600),
    *session("a1", (10, 12), "ann", reason=EndReason.SUPERSEDED),
    *session("a2", (11, 11.5), "ann"),
    *session("a3", (13, 14), "ann"),
    # Two sessions of one device, and one that begins as another ends, are not at once.
    *session("a4", (15, 17), "ann"),
    *session("a4", (16, 18), "ann", number=2),
    *session("a5", (18, 19), "ann"),
    *session("b1", (10, 15), "bob"),
    *session("c1", (10, 15), "carl"),
    *session("d1", (1, 10), reason=EndReason.TIMED_OUT),
    *session("e1", (10, 11), "eve", foreground_s=7_200),
    *(
        change
        for number in range(1, 12)
        for change in session("f1", (10 + number / 100, 10 + (number + 1) / 100), number=number)
    ),
    *(change for number in range(1, 12) for change in session("g1", (number, number + 0.5), number=number)),
]


def findings(warehouse: PlayerWarehouse) -> dict[tuple, Row]:
    rows = warehouse.location.read(warehouse.spark.read, SESSION_FINDINGS).collect()
    found = {(row.finding, row.player, row.device_id, row.session_id): row for row in rows}
    assert len(found) == len(rows)
    return found


def test_seeded_players_have_their_findings_until_a_late_end_withdraws_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    warehouse = PlayerWarehouse.create(spark, tmp_path)
    limits = [("play_time", "account", "bob", most) for most in (4 * HOUR, 5 * HOUR, 4 * HOUR)]
    limits.append(("play_time", None, None, 10 * HOUR))
    warehouse.location.append(spark.createDataFrame(limits, FINDING_LIMITS.schema), FINDING_LIMITS)
    warehouse.stream(EVENING_MS, EVENING)
    warehouse.update()
    found = findings(warehouse)
    assert {key: row.amount for key, row in found.items()} == {
        ("devices_at_once", "ann", None, None): 2,
        ("play_time", "bob", None, None): 5 * HOUR,
        ("without_end", "d1", "d1", "1"): 9 * HOUR,
        ("many_starts", "f1", "f1", None): 11,
        ("foreground", "eve", "e1", "1"): HOUR,
    }
    assert found["devices_at_once", "ann", None, None].sessions == ["a1/1", "a2/1"]
    assert set(found["many_starts", "f1", "f1", None].sessions) == {f"f1/{number}" for number in range(1, 12)}
    assert found["play_time", "bob", None, None].most == 4 * HOUR

    warehouse.stream(LATER_MS, [late_end("a1", (10, 10.5), "ann"), late_end("d1", (1, 2)), *session("h1", (19, 21))])
    warehouse.update()
    later = findings(warehouse)
    assert later.keys() == found.keys() - {("devices_at_once", "ann", None, None), ("without_end", "d1", "d1", "1")}
    assert {row.first_seen_at for row in later.values()} == {row.first_seen_at for row in found.values()}
