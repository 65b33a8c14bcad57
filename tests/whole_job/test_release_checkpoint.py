"""This code continues the checkpoint and the tables that the release wrote."""

from collections import Counter
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

from sessionization.ops.state_reader import StateReader
from sessionization.players.players_job import keep_players
from sessionization.players.players_settings import PlayersSettings
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.views import VIEWS, create_views
from tests.fixtures.release_checkpoint import say, unpack
from tests.support.tables import Tables, read_tables

pytestmark = pytest.mark.job

LATER_MESSAGES = (
    ("live", 1, "Start"), ("live", 1, "EndBi"), ("over", 3, "EndBi"), ("waits", 4, "Start"), ("next", 5, "EndBi"),
    ("new", 7, "Start"),
)  # fmt: skip
LATER_CHANGES = Counter([
    ("live", 1, "ended", "reported", 0),
    ("waits", 4, "started", None, 0),
    ("waits", 4, "ended", "reported", 0),
    ("next", 5, "ended", "reported", 1),
    ("new", 7, "started", None, 0),
])  # fmt: skip
STATUSES = {
    ("live", 1): "live", ("beats", 2): "live", ("over", 3): "closed", ("waits", 4): "pending_end",
    ("next", 5): "closed", ("next", 6): "live",
}  # fmt: skip
LATER_STATUSES = STATUSES | {("live", 1): "closed", ("waits", 4): "closed", ("new", 7): "live"}


def statuses_in_state(spark: SparkSession, checkpoints: Path) -> dict[tuple[str, int], str]:
    """The status of each state entry, by device and session."""
    rows = StateReader(spark, checkpoints).entries().collect()
    return {(row.device_id, row.session_id): row.status for row in rows}


def changes(tables: Tables) -> Counter[tuple[str, int, str, str | None, int]]:
    """All changes except heartbeats: device, session, change, reason, revision."""
    rows = tables["session_changes"].of("device_id", "session_id", "change", "end_reason", "revision")
    return Counter(row for row in rows if row[2] != "heartbeat")


def beats(tables: Tables, session: tuple[str, int]) -> list[tuple[int, int]]:
    """The beat number and the missed beats of each heartbeat of a session."""
    rows = tables["session_changes"].of("device_id", "session_id", "change", "beat", "missed_beats")
    return [row[3:] for row in rows if row[:3] == (*session, "heartbeat")]


def assert_continued(before: Tables, after: Tables) -> None:
    """The later messages caused the right changes, and the sessions that beat before beat again."""
    assert changes(after) - changes(before) == LATER_CHANGES
    assert not changes(before) - changes(after)
    assert len(after["raw_events"]) == len(before["raw_events"]) + len(LATER_MESSAGES)
    sums = Counter[str]()
    for row in after["stream_progress"]:
        sums.update({name: row[name] or 0 for name in ("duplicate_start", "duplicate_end")})
    assert sums == {"duplicate_start": 1, "duplicate_end": 1}
    sessions = {(row["device_id"], row["session_id"]): row for row in after["sessions"]}
    assert {key for key, row in sessions.items() if row["status"] == "live"} == {("beats", 2), ("next", 6), ("new", 7)}
    # The first beat after years stands for all that were missed.
    for session in (("beats", 2), ("next", 6)):
        found = beats(after, session)
        assert sum(1 + missed for _, missed in found) == max(beat for beat, _ in found)
        assert len(found) > len(beats(before, session))


def assert_new_tables_and_views(spark: SparkSession, warehouse: Path) -> None:
    """The job players, which the release did not have, counts its sessions; every view reads its tables."""
    settings = PlayersSettings.model_validate({"tables": {"warehouse": warehouse}})
    keep_players(settings, lambda _: None, Event())
    create_views(spark, TableLocation.of(settings.tables))
    rows = {view: spark.sql(f"SELECT * FROM {view}").collect() for view in VIEWS}
    assert {(row.device_id, row.session_id) for row in rows["live_sessions"]} == {("beats", 2), ("next", 6), ("new", 7)}
    started = spark.sql("SELECT sum(sessions) FROM daily_activity WHERE platform = 'all' AND title = 'all'").first()
    assert started is not None
    assert started[0] == len(LATER_STATUSES)


@pytest.mark.parametrize(
    ("layout", "events"),
    [
        ("groups", "default"),
        ("devices", "playstation"),
        pytest.param("groups", "playstation", marks=pytest.mark.long),
        pytest.param("devices", "default", marks=pytest.mark.long),
    ],
)
def test_the_checkpoint_of_the_release_is_continued(
    layout: str, events: str, tmp_path: Path, spark: SparkSession
) -> None:
    """Also with a map that has a title, which tables and state did not have."""
    job = unpack(tmp_path, layout, f"--events={events}")
    before = read_tables(job.warehouse)
    assert statuses_in_state(spark, job.checkpoints) == STATUSES
    say(job, "after", *LATER_MESSAGES, appTitleId="chess")
    job.run_until_done()
    after = read_tables(job.warehouse)
    assert_continued(before, after)
    if events == "playstation":
        titles = {row["session_id"]: row["title"] for row in after["sessions"]}
        assert titles == {1: "chess", 2: None, 3: None, 4: "chess", 5: "chess", 6: None, 7: "chess"}
    else:
        assert_new_tables_and_views(spark, job.warehouse)
    assert statuses_in_state(spark, job.checkpoints) == LATER_STATUSES
