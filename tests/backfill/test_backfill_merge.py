"""Which sessions a backfill merges into `sessions`, and when it refuses to; on tables made by hand around midnight."""

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.backfill.backfill_job import backfill
from sessionization.errors import CheckpointError, DifferenceError
from sessionization.spark.tables.creation import create_table
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import PLAYER_PROGRESS, RAW_EVENTS, SESSION_CHANGES, STREAM_PROGRESS
from tests.backfill.streamed_evening import StreamedEvening
from tests.support.changes import NOW_MS, a_change, changes_frame
from tests.support.checkpoint_folder import FIXED, reopened
from tests.support.sent import message
from tests.support.warehouse import catch_up, empty_tables

pytestmark = pytest.mark.spark

DAY = datetime.now(UTC).date() - timedelta(days=10)
MIDNIGHT = datetime.combine(DAY + timedelta(days=1), time(), UTC)


def tables_around_midnight(spark: SparkSession, folder: Path, later: timedelta | None) -> StreamedEvening:
    """Tables of a stream around midnight: session 1 lasts across it, session 2 ends before it. `sessions` is empty.

    The last micro-batch ran ten minutes before midnight, or `later` after midnight.
    """
    location = TableLocation(folder / "warehouse")
    pinned = replace(FIXED, tables=str(location))
    empty_tables(spark, location, owner=reopened(folder / "checkpoints", fixed=pinned).id)
    reopened(folder / "others", fixed=pinned)

    def archived(at: datetime, session_id: int, event: str) -> tuple:
        return "pc_sessions", None, None, "f", at, message(session_id, event, f"d{session_id}", at), at.date()

    first_start, second_end, first_end = (MIDNIGHT + timedelta(minutes=minutes) for minutes in (-10, -11, 9))
    messages = [
        archived(first_start, 1, "Start"),
        archived(second_end - timedelta(minutes=1), 2, "Start"),
        archived(second_end, 2, "EndBi"),
    ]
    clocks = [at + timedelta(seconds=1) for *_, at, _, _ in messages]
    if later is not None:
        messages.append(archived(first_end, 1, "EndBi"))
        clocks.append(MIDNIGHT + later)
    location.append(spark.createDataFrame(messages, RAW_EVENTS.schema), RAW_EVENTS)
    progress = [
        {"query": "sessionize", "batch_id": number, "processed_at": at, "rows_in": 1}
        for number, at in enumerate(sorted(clocks))
    ]
    location.append(spark.createDataFrame(progress, STREAM_PROGRESS.schema), STREAM_PROGRESS)
    return StreamedEvening(spark, folder)


@pytest.mark.long
@pytest.mark.parametrize("later", [timedelta(minutes=10), timedelta(days=4)])
def test_a_session_that_was_live_when_the_days_ended_is_not_merged_if_the_stream_went_on(
    spark: SparkSession, tmp_path: Path, later: timedelta
) -> None:
    streamed = tables_around_midnight(spark, tmp_path, later)
    rows = f"SELECT session_id, status FROM {streamed.sessions} ORDER BY 1"
    lines = streamed.backfill(to=DAY, merge=True)
    assert "sessions that were live when these days ended are left out: the stream went on" in lines
    assert [tuple(row) for row in spark.sql(rows).collect()] == [(2, "ended")]
    streamed.backfill(merge=True)
    assert [tuple(row) for row in spark.sql(rows).collect()] == [(1, "ended"), (2, "ended")]


def test_a_merge_is_refused_for_another_job_and_until_rollup_has_read_all_changes(
    spark: SparkSession, tmp_path: Path
) -> None:
    streamed = tables_around_midnight(spark, tmp_path, None)
    with pytest.raises(CheckpointError, match="is written by another checkpoint"):
        streamed.backfill(merge=True, checkpoints=tmp_path / "others")
    assert streamed.backfill(checkpoints=tmp_path / "others")[-1] == "2 sessions are in sessions_backfill"

    beat = a_change(change="heartbeat", beat=1, missed_beats=0, due_ms=NOW_MS)
    changes = changes_frame(spark, [beat])
    streamed.location.append(changes, SESSION_CHANGES)
    catch_up(spark, streamed.location, tmp_path / "checkpoints")
    streamed.location.append(changes, SESSION_CHANGES)
    with pytest.raises(CheckpointError, match="rollup has not read all of session_changes: start the job"):
        streamed.backfill(merge=True)
    assert streamed.rows() == [], "no refused merge has written"
    lines: list[str] = []
    with pytest.raises(DifferenceError):
        backfill(streamed.settings(verify=True), lines.append)
    assert "rollup has not read all of session_changes: the newest rows may differ for that" in lines

    catch_up(spark, streamed.location, tmp_path / "checkpoints")
    create_table(spark, streamed.location, PLAYER_PROGRESS, "no checkpoint")
    assert streamed.backfill(to=DAY, merge=True)[-1].startswith("2 sessions are new in sessions")
    [noted] = streamed.location.read(spark.read, PLAYER_PROGRESS).collect()
    assert noted.reason == "merged", "the job players does not see by updated_at what was merged"
    assert noted.days[0] < DAY
    # The stream did not go on: session 1 is still live.
    assert [(row.session_id, row.status) for row in streamed.rows()] == [(1, "live"), (2, "ended")]
    spark.sql(f"OPTIMIZE {streamed.sessions}")  # after it a second merge has nothing to commit
    assert streamed.backfill(to=DAY, merge=True)[-1] == "0 sessions are new in sessions, 0 are changed"
