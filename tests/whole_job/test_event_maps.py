"""A job with another event map than `default`: tables and state are the second implementation's, also after kills."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.event_map.reading import DEFAULT
from sessionization_simulator.malformed import possible_dirt
from tests.support.boundaries import Boundary
from tests.support.event_maps import ARCADE, LOBBY, PACKAGE, map_of
from tests.support.harness import compare, play
from tests.support.wire import REASONS_OF_MAPS

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


@pytest.mark.long
@pytest.mark.parametrize("groups", [None, 8], ids=["by device", "in groups"])
@pytest.mark.parametrize("name", PACKAGE)
def test_a_dirty_evening_of_a_package_map_with_ten_kills_has_no_difference(
    spark: SparkSession, tmp_path: Path, name: str, groups: int | None
) -> None:
    run = play(11, 10, tmp_path, groups=groups, events=None if name == DEFAULT else PACKAGE[name])
    assert compare(run, spark) == []
    assert len(run.cuts) == 10
    reasons = {row["reason"] for row in run.actual["quarantine"]}
    assert reasons == REASONS_OF_MAPS & set(possible_dirt(map_of(PACKAGE[name])))
