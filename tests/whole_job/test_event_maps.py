"""A job with an event map that is none of ours: tables and state are the second implementation's, also after kills."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.boundaries import Boundary
from tests.support.event_maps import ARCADE, LOBBY
from tests.support.harness import compare, play

pytestmark = pytest.mark.job


@pytest.mark.parametrize(
    ("events", "groups"), [(ARCADE, 8), (LOBBY, None), (LOBBY, 8)], ids=["arcade", "lobby by device", "lobby in groups"]
)
def test_a_dirty_evening_of_a_map_has_no_difference(
    spark: SparkSession, tmp_path: Path, events: str, groups: int | None
) -> None:
    run = play(7, 1, tmp_path, boundaries=(Boundary.AT_RANDOM,), groups=groups, events=events)
    assert compare(run, spark) == []
    reasons = {row["reason"] for row in run.actual["quarantine"]}
    assert {"oversized", "missing_device_id", "missing_event_time", "unknown_event", "unknown_platform"} <= reasons
