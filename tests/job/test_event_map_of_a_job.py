"""A job with an event map of its own: nested fields, composite ids, epoch times, and other events beside."""

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.backfill.backfill_job import backfill
from sessionization.backfill.backfill_settings import BackfillSettings
from sessionization.errors import ConfigurationError
from sessionization.event_map.reading import DEFAULT, package_map
from sessionization.ops.erase import _find_sessions
from sessionization.ops.state_reader import StateReader
from sessionization.spark.checkpoint.folder import ARCHIVE
from sessionization.spark.output.progress import BatchProgress
from sessionization.spark.output.progress_log import ProgressLog
from sessionization.spark.tables.creation import fit_to_events
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import QUARANTINE, RAW_EVENTS, SESSION_CHANGES, SESSIONS, STREAM_PROGRESS
from tests.support.event_maps import ARCADE, LOBBY, map_of
from tests.support.settings import settings_of
from tests.support.stream_job import Job
from tests.support.waiting import wait_for
from tests.support.warehouse import empty_tables

pytestmark = pytest.mark.spark


def game(session_id: int, kind: str, device: str = "h1", platform: str = "PS5", foreground_ms: int = 1_500) -> dict:
    return {
        "tenant": "blue:1",
        "device": {"hw.id": device, "os": platform},
        "session": {"number": session_id, "foreground": foreground_ms},
        "type": kind,
        "ts": time.time_ns() // 1_000_000,
        "user": {"id": 5},
    }


def test_the_tables_hold_what_the_map_says(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "arcade.yml").write_text(ARCADE)
    job = Job(spark, tmp_path, events=str(tmp_path / "arcade.yml"), late_retention="1h")
    reports: list[BatchProgress] = []
    with job.running(report=reports.append) as queries:
        played = (game(1, "session_start"), game(1, "session_end"), game(2, "session_resume", "h2", "iOS"))
        job.send(*played, stream="arcade")
        job.send(game(3, "purchase"), game(4, "session_start", platform="Linux"), b"{}", b"{", stream="arcade")
        job.send(game(9, "session_start"), stream="pc_sessions")  # no stream of the map
        wait_for(lambda: job.archived() == 7 and len(job.rows(QUARANTINE)) == 3, "the messages in the archive")
        wait_for(lambda: len(job.rows(SESSIONS)) == 2, "the sessions")
        wait_for(lambda: job.count(change="ended") == 1, "the end")
        job.stop(queries)
    assert {row["stream"] for row in job.rows(RAW_EVENTS)} == {"arcade"}
    assert sorted(row["reason"] for row in job.rows(QUARANTINE)) == [
        "malformed_json",
        "missing_device_id",
        "unknown_platform",
    ]
    columns = ("device_id", "session_id", "account_id", "platform", "foreground_s")
    shown = [tuple(row[name] for name in columns) for row in job.rows(SESSIONS)]
    assert sorted(shown) == [("blue\\:1:h1", 1, "5", "console", 1), ("blue\\:1:h2", 2, "5", "mobile", None)]

    archived = [report for report in reports if report.query == ARCHIVE]
    sums = [sum(getattr(report, name) for report in archived) for name in ("rows_in", "quarantined", "skipped")]
    assert sums == [7, 3, 1]
    assert all(report.skipped is None for report in reports if report.query != ARCHIVE)
    for _ in range(2):  # only the first start changes the tables
        fit_to_events(spark, job.location, job.settings.event_map, job.settings.event_map.label_columns())
    log = ProgressLog(job.context)
    for report in reports:
        log.store(report)
    log.append()
    assert sum(row["skipped"] or 0 for row in job.rows(STREAM_PROGRESS)) == 1


def test_tables_of_the_first_release_take_other_platforms(spark: SparkSession, tmp_path: Path) -> None:
    location = TableLocation(tmp_path)
    empty_tables(spark, location, owner="ours")
    table = location.sql_name(SESSION_CHANGES.name)
    spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT known_platform CHECK (platform IN ('pc', 'console'))")
    fit_to_events(spark, location, package_map(DEFAULT), ())
    assert "delta.constraints.known_platform" in location.properties(spark, SESSION_CHANGES)
    fit_to_events(spark, location, map_of(ARCADE), map_of(ARCADE).label_columns())
    assert "delta.constraints.known_platform" not in location.properties(spark, SESSION_CHANGES)


def visit(session_id: object, name: str, device_id: str) -> dict:
    return {
        "client": {"id": device_id, "os": "Android"},
        "user": {"id": f"account of {device_id}", "session": session_id},
        "name": name,
        "time": time.time_ns() // 1_000_000,
    }


def test_session_ids_of_type_text_go_through_state_tables_backfill_and_warm_start(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "lobby.yml").write_text(LOBBY)
    job = Job(spark, tmp_path, events=str(tmp_path / "lobby.yml"), late_retention="1h")
    with job.running() as queries:
        starts = [visit("a", "joined", "c1"), visit("B", "joined", "c2"), visit(7, "joined", "c3")]
        job.send(*starts, visit("a", "left", "c1"), stream="halls")
        wait_for(lambda: job.archived() == 4 and job.count(change="ended") == 1, "the messages")
        wait_for(lambda: len(job.rows(SESSIONS)) == 3, "the sessions")
        job.stop(queries)
    ids = {("c1", "a"), ("c2", "B"), ("c3", "7")}
    assert {(row["device_id"], row["session_id"]) for row in job.rows(SESSIONS)} == ids
    former = job.settings.state.checkpoints
    entries = StateReader(spark, former).sessions().collect()
    assert {(row.device_id, row.session_id) for row in entries} == ids
    places, lines = {"warehouse": tmp_path / "warehouse", "checkpoints": former}, list[str]()
    backfill(settings_of(BackfillSettings, places, verify=True), lines.append)
    assert lines[-1] == "3 sessions, all the same"

    for file in job.input.glob("*/*.json"):
        file.unlink()
    job.change(checkpoints=tmp_path / "other", from_sessions=True, events="default")
    with (
        pytest.raises(ConfigurationError, match="are of type string, and those of --events of type bigint"),
        job.running(),
    ):
        pass
    job.change(events=str(tmp_path / "lobby.yml"), device_groups=3, checkpoints=tmp_path / "groups")
    job.send(visit("B", "left", "c2"), stream="halls")
    with job.running() as queries:
        wait_for(lambda: job.count(change="ended", session_id="B", end_reason="reported") == 1, "the End")
        wait_for(lambda: len(job.rows(SESSIONS, status="ended")) == 2, "the sessions")
        job.stop(queries)
    assert job.count(change="started") == 3
    entries = StateReader(spark, job.settings.state.checkpoints).sessions().collect()
    assert {(row.device_id, row.session_id) for row in entries} == ids

    found = _find_sessions(spark, job.location, ["account of c3"]).collect()
    assert [(row.device_id, row.session_id) for row in found] == [("c3", "7")]
