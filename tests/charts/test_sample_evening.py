"""The sample evening has every kind of dirt, and its tables show what the rules make of it."""

import pytest
from pyspark.sql import SparkSession

pytest.importorskip("matplotlib", reason="Matplotlib is not installed: make notebooks installs it")

from sessionization.core.events import EndReason
from sessionization.notebook import sample_evening, table_charts
from sessionization_simulator.dirt import DirtKind
from tests.support.wire import REASONS
from tools.sample_evening import make

pytestmark = pytest.mark.spark

LOST = {DirtKind.LOST_START, DirtKind.LOST_END}


@pytest.fixture(scope="module")
def opened(spark: SparkSession) -> SparkSession:
    said = sample_evening.open_sample(spark)
    assert said == "865 messages from 20:00 to 21:59 UTC, 89 devices, 431 sessions"
    return spark


def test_the_file_is_what_the_simulator_makes() -> None:
    assert sample_evening.read_sample() == make()


def test_the_sample_has_every_kind_of_dirt_and_each_has_its_effect(opened: SparkSession) -> None:
    effects = {row.dirt: row.effects for row in sample_evening.effects_of_dirt(opened).collect()}
    assert effects.keys() == set(DirtKind) - LOST
    assert effects["repeat"] == "12 x none"
    assert effects["end_before_start"] == "6 x reported, started; 2 x reported, started, superseded"
    assert effects["overlap"] == "3 x started, superseded"
    assert effects["late_end"] == "2 x reported; 1 x reported (correction)"
    in_quarantine = {kind: effects[kind].split(": ")[-1] for kind in REASONS}
    assert in_quarantine == {kind: kind for kind in REASONS}


def test_sessions_end_in_every_way_and_none_is_live_at_the_end(opened: SparkSession) -> None:
    rows = opened.sql("SELECT end_reason, count(*) AS n FROM sessions GROUP BY 1").collect()
    assert {row.end_reason for row in rows} == set(EndReason)
    assert sum(row.n for row in rows) == 431


def test_the_story_of_a_device_shows_what_its_messages_became(opened: SparkSession) -> None:
    device_id = table_charts.busy_device(opened)
    assert device_id is not None
    figure = sample_evening.story_of_device(opened, device_id)
    title = figure.get_suptitle()
    assert title == f"12 messages of {device_id} make 7 sessions: 4 end as reported, 1 of them after a correction"
    shown = {text.get_text() for text in figure.legends[0].get_texts()}
    assert {"reported", "orphaned", "timed out", "end before its correction"} <= shown


def test_titles_state_what_the_charts_show(opened: SparkSession) -> None:
    charts = (table_charts.concurrent_sessions, table_charts.ends_by_reason, table_charts.session_lengths)
    titles = [chart(opened).axes[0].get_title(loc="left") for chart in charts]
    (peak,) = opened.sql(
        "SELECT max(n) AS n FROM (SELECT sum(sessions) AS n FROM concurrent_sessions GROUP BY minute)"
    ).collect()
    assert titles[0].startswith(f"Concurrent sessions: at most {peak.n} in a minute, at 2")
    assert titles[1] == "Sessions by how they ended: 68% of 431 have the end that was reported"
    assert titles[2].startswith("Session lengths: 375 sessions, the median is ")
