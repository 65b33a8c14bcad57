"""A warm start reads the newest days of the tables; it does not miss the files of older ones."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.clock import utc, wall_clock_ms
from sessionization.durations import DAY_MS
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.opening import open_checkpoint
from sessionization.spark.checkpoint.pinned_settings import PinnedSettings
from sessionization.spark.input.topic_offsets import Offsets, TopicRange
from sessionization.spark.job_context import JobContext
from sessionization.spark.operator.output_rows import OUTPUT_SCHEMA
from sessionization.spark.output.sinks import ChangesSink, SinkContext
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import RAW_EVENTS, SESSION_CHANGES, SESSIONS, STREAM_PROGRESS, Table
from sessionization.spark.warm_start import read_position
from sessionization.spark.warm_start.initial_state import warm_start
from sessionization.spark.warm_start.remembered_state import newest_clock_ms
from tests.support.archived_messages import archive
from tests.support.changes import a_change
from tests.support.delta import live_files
from tests.support.settings import settings_of
from tests.support.warehouse import empty_tables, frame_of

pytestmark = pytest.mark.spark

NOW_MS = wall_clock_ms()
OLD_MS = NOW_MS - 100 * DAY_MS


@pytest.fixture
def location(spark: SparkSession, tmp_path: Path) -> TableLocation:
    location = TableLocation(tmp_path / "warehouse")
    empty_tables(spark, location, owner="theirs")
    return location


def context(spark: SparkSession, location: TableLocation, **options: object) -> JobContext:
    assert location.warehouse is not None
    folder = location.warehouse.parent / "checkpoints"
    settings = settings_of(
        SessionizeSettings, warehouse=location.warehouse, checkpoints=folder, from_sessions=True, **options
    )
    checkpoint = open_checkpoint(
        folder, PinnedSettings.of(settings, str(location)), settings.rules.of_sessions, warm=True
    )
    return JobContext(spark, settings, checkpoint, location)


def append_changes(spark: SparkSession, location: TableLocation, batch_id: int, *changes: tuple) -> None:
    rows = spark.createDataFrame(list(changes), OUTPUT_SCHEMA)
    ChangesSink(SinkContext("sessionize", location, "theirs"))(rows, batch_id)


def report(spark: SparkSession, location: TableLocation, at_ms: int) -> None:
    row = {"query": "sessionize", "batch_id": 0, "processed_at": utc(at_ms), "rows_in": 0}
    location.append(frame_of(spark, STREAM_PROGRESS, [row]), STREAM_PROGRESS)


def at(ms: int, session_id: int, **changes: object) -> tuple:
    instants = {"started_ms": ms, "event_ms": ms, "ingested_ms": ms, "processed_ms": ms}
    return a_change(device_id=f"pc-{session_id}", session_id=session_id, **instants | changes)


def remove_files(location: TableLocation, table: Table, *, after_ms: int, before_ms: int) -> None:
    """Remove the data files of the days between two instants; a read of one of them then fails."""
    assert location.warehouse is not None
    folder = location.warehouse / table.name
    days = {name: name.partition("=")[2].partition("/")[0] for name in live_files(folder)}
    removed = [name for name, day in days.items() if day_of(after_ms) < day < day_of(before_ms)]
    assert removed
    for name in removed:
        (folder / name).unlink()


def day_of(instant_ms: int) -> str:
    return utc(instant_ms).date().isoformat()


@pytest.mark.long
def test_changes_and_sessions_of_older_days_are_not_read(
    spark: SparkSession, tmp_path: Path, location: TableLocation
) -> None:
    (tmp_path / "input").mkdir()
    end = {"change": "ended", "end_reason": "reported", "ended_ms": OLD_MS + 1_000, "duration_ms": 1_000}
    append_changes(spark, location, 0, at(OLD_MS, 1), at(OLD_MS, 1, **end), at(NOW_MS - 1, 3))
    report(spark, location, NOW_MS - 1)
    job = context(spark, location, input=tmp_path / "input")
    warm_start(job)  # merges these changes
    append_changes(spark, location, 1, at(NOW_MS, 2))
    for table in (SESSION_CHANGES, SESSIONS):
        remove_files(location, table, after_ms=0, before_ms=NOW_MS - 50 * DAY_MS)

    state = warm_start(job)

    assert state.sessions is not None
    assert sorted(row.grouping_key for row in state.sessions.collect()) == ["pc-2", "pc-3"]
    assert state.changes_version == location.newest_version(spark, SESSION_CHANGES)


def test_the_newest_clock_is_that_of_the_newest_change_or_of_a_later_micro_batch_without_one(
    spark: SparkSession, location: TableLocation
) -> None:
    assert newest_clock_ms(spark, location) == 0
    append_changes(spark, location, 0, at(OLD_MS, 1), at(OLD_MS + 7, 2))
    assert newest_clock_ms(spark, location) == OLD_MS + 7, "no row of stream_progress was written yet"
    report(spark, location, NOW_MS - 5)
    append_changes(spark, location, 1, at(NOW_MS, 3), at(NOW_MS - 2, 4))
    assert newest_clock_ms(spark, location) == NOW_MS
    report(spark, location, NOW_MS + 1)
    assert newest_clock_ms(spark, location) == NOW_MS + 1


def test_offsets_of_older_days_are_not_read_without_need(
    spark: SparkSession, location: TableLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def next_offsets(*partitions: int) -> Offsets | None:
        since, ends = ({"pc_sessions": dict.fromkeys(partitions, value)} for value in (0, 1_000))
        monkeypatch.setattr(read_position, "read_topic_range", lambda *_: TopicRange(since, ends))
        return read_position.next_offsets(context(spark, location, source="kafka", bootstrap_servers="b:9092"))

    pc = "pc_sessions"
    oldest = (pc, 0, 1, OLD_MS - DAY_MS)  # the oldest day is read
    old, new = ((pc, 2, 9, OLD_MS), (pc, 1, 99, OLD_MS)), ((pc, 0, 50, NOW_MS), (pc, 1, 51, NOW_MS))
    archive(spark, location, oldest, *old, *new)
    assert next_offsets(0, 1, 2) == {"pc_sessions": {0: 51, 1: 100, 2: 10}}, "a later offset, and a quiet partition"

    location.delta_table(spark, RAW_EVENTS).delete("offset = 99 OR partition = 2")
    archive(spark, location, (pc, 1, 9, OLD_MS))
    remove_files(location, RAW_EVENTS, after_ms=OLD_MS - DAY_MS, before_ms=NOW_MS)
    assert next_offsets(0, 1) == {"pc_sessions": {0: 51, 1: 52}}
