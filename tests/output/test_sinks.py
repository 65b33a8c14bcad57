"""What the sinks write of a micro-batch, once; what they report and count; generated code, and compaction in turn."""

from datetime import UTC, datetime
from unittest.mock import Mock

import pytest
from pyspark.sql import DataFrame, SparkSession

from sessionization.durations import MINUTE_MS
from sessionization.event_map.reading import DEFAULT, package_map
from sessionization.spark.engine.generated_code import GENERATED_CODE_CONF
from sessionization.spark.operator.output_rows import OUTPUT_SCHEMA
from sessionization.spark.output import rollup_sink, sinks
from sessionization.spark.output.rollup_sink import RollupSink
from sessionization.spark.output.sinks import ChangesSink, SinkContext, newest_appended_batch
from sessionization.spark.tables import compaction, rollup
from sessionization.spark.tables.creation import fit_to_events
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES, SESSIONS, STREAM_PROGRESS
from tests.support.changes import NOW_MS, a_change, changes_frame, changes_sink
from tests.support.delta import live_files
from tests.support.warehouse import LOOKBACK_MS, empty_tables, frame_of

pytestmark = pytest.mark.spark


@pytest.fixture
def location(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> TableLocation:
    return empty_tables(spark, TableLocation(tmp_path_factory.mktemp("warehouse with spaces")), owner="ours")


def fill_twice(spark: SparkSession, location: TableLocation) -> None:
    """Append a change of each kind, its session and a row of `stream_progress`, each twice."""
    heartbeat = {"change": "heartbeat", "beat": 1, "due_ms": NOW_MS}
    end = {"change": "ended", "ended_ms": NOW_MS, "end_reason": "reported"}
    kinds = [heartbeat, {"change": "started"}, end]
    progress = {"query": "rollup", "batch_id": 0, "rows_in": 1, "processed_at": datetime.fromtimestamp(0, UTC)}
    for session_id in (1, 2):
        changes = changes_frame(spark, [a_change(session_id=session_id, **kind) for kind in kinds])
        location.append(changes, SESSION_CHANGES)
        location.append(rollup.to_session_rows(rollup.fold_by_session(changes)).coalesce(1), SESSIONS)
        location.append(frame_of(spark, STREAM_PROGRESS, [progress]), STREAM_PROGRESS)


def test_a_query_generates_code_after_a_micro_batch_of_many_rows(
    spark: SparkSession, location: TableLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "GENERATE_CODE_ROWS_OF_BATCH", 2)
    of_the_query = spark.newSession()
    sink = changes_sink(location, [])

    def append(batch_id: int, rows: int) -> bool:
        changes = [a_change(session_id=number) for number in range(rows)]
        sink(of_the_query.createDataFrame(changes, OUTPUT_SCHEMA), batch_id)
        return all(of_the_query.conf.get(name) == value for name, value in GENERATED_CODE_CONF.items())

    assert [append(0, 1), append(1, 2), append(2, 1)] == [False, True, True]
    assert spark.conf.get("spark.sql.codegen.wholeStage") == "false", "the other queries have sessions of their own"


def test_live_sessions_are_counted_in_the_table_after_a_start_and_then_by_the_changes(
    spark: SparkSession, location: TableLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_earlier_run = changes_frame(spark, [a_change(session_id=1), a_change(session_id=2)])
    location.append(rollup.to_session_rows(rollup.fold_by_session(of_earlier_run)), SESSIONS)
    end = a_change(session_id=2, change="ended", ended_ms=NOW_MS, end_reason="reported")
    reports: list = []
    sink = RollupSink(SinkContext("rollup", location, "writer", listeners=(reports.append,)), LOOKBACK_MS)
    sink(changes_frame(spark, [a_change(session_id=3)]), 1)
    monkeypatch.setattr(rollup, "merge", Mock(return_value=Mock(num_inserted_rows=0)))  # the table stays as it is
    sink(changes_frame(spark, [end]), 2)
    assert [report.live for report in reports] == [3, 2]


HOUR_AGO, NINE_MIN_AGO, NOW = (NOW_MS - minutes * MINUTE_MS for minutes in (60, 9, 0))


def start(started_ms: int, processed_ms: int) -> tuple:
    return a_change(started_ms=started_ms, processed_ms=processed_ms)


def end(started_ms: int | None, ended_ms: int, processed_ms: int, reason: str = "reported") -> tuple:
    of_end = {"change": "ended", "end_reason": reason, "started_ms": started_ms, "ended_ms": ended_ms}
    return a_change(**of_end, processed_ms=processed_ms)


FIRST = [start(HOUR_AGO, HOUR_AGO), end(HOUR_AGO, NINE_MIN_AGO, NINE_MIN_AGO)]
TIMED_OUT = [FIRST[0], end(HOUR_AGO, NINE_MIN_AGO, NINE_MIN_AGO, "timed_out")]
ORPHAN = end(None, NINE_MIN_AGO, NINE_MIN_AGO, "orphaned")
NEW_ORPHAN = end(None, NOW, NOW, "orphaned")
REUSED = [
    (FIRST, [start(NOW, NOW)]),
    (TIMED_OUT, [start(NINE_MIN_AGO + 1, NOW)]),
    (FIRST, [start(NOW - 1, NOW), end(NOW - 1, NOW, NOW)]),  # the second session is over within the micro-batch
]
LATE = [
    (FIRST, [start(HOUR_AGO, NOW)]),  # an upload is repeated
    (FIRST, [start(HOUR_AGO + 1, NOW)]),
    ([ORPHAN], [start(HOUR_AGO, NOW)]),  # the Start comes when its End had been forgotten
]
NEITHER = [
    (FIRST, [start(HOUR_AGO, NOW), end(HOUR_AGO, NINE_MIN_AGO, NOW)]),  # an upload of the whole session is repeated
    (FIRST[:1], [start(HOUR_AGO, NOW)]),
    (FIRST[:1], [end(HOUR_AGO, NOW, NOW, "superseded")]),
    (FIRST, [NEW_ORPHAN]),
    ([], FIRST),
]


@pytest.mark.parametrize(
    ("histories", "expected"),
    [
        ([*LATE, ([], [NEW_ORPHAN])], (0, 3)),  # an orphaned end that inserts a row
        (NEITHER, (0, 0)),
        ([*REUSED, *LATE, *NEITHER], (3, 3)),
    ],
    ids=["a Start comes late", "neither", "all of them"],
)
def test_starts_of_sessions_that_are_over_are_counted(
    spark: SparkSession, location: TableLocation, histories: list, expected: tuple[int, int]
) -> None:
    def of_all_devices(part: int) -> DataFrame:
        rows = [("d" + str(device), *row[1:]) for device, history in enumerate(histories) for row in history[part]]
        return changes_frame(spark, rows)

    reports: list = []
    sink = RollupSink(SinkContext("rollup", location, "writer", listeners=(reports.append,)), LOOKBACK_MS)
    for batch_id, part in enumerate((0, 1, 1)):  # the engine repeats the last one after a kill
        sink(of_all_devices(part), batch_id)
    assert [(report.reused_ids, report.late_starts) for report in reports] == [(0, 0), expected, expected]


@pytest.mark.parametrize("compacts_changes", [True, False], ids=["all tables", "changes by another job"])
def test_each_table_is_compacted_and_the_logs_are_cleaned_up_in_turn(
    spark: SparkSession, location: TableLocation, monkeypatch: pytest.MonkeyPatch, *, compacts_changes: bool
) -> None:
    cleaned: list[str] = []
    monkeypatch.setattr(compaction, "TURN_S", 0)
    monkeypatch.setattr(rollup_sink, "delete_old_log_entries", lambda *_: cleaned.append("logs"))
    warehouse = location.warehouse
    assert warehouse is not None
    fill_twice(spark, location)

    def files() -> dict[str, set[str]]:
        changes = live_files(warehouse / SESSION_CHANGES.name)
        beats = {path for path in changes if "change=heartbeat/" in path}
        others = {table.name: set(live_files(warehouse / table.name)) for table in (SESSIONS, STREAM_PROGRESS)}
        return {"heartbeats": beats, "other changes": changes.keys() - beats} | others

    check_lease = Mock()
    sink = RollupSink(SinkContext("rollup", location, "writer", check_lease), LOOKBACK_MS, compacts_changes)
    no_changes = changes_frame(spark, [])
    every = [["heartbeats"], ["other changes"]] * compacts_changes + [["sessions"], ["stream_progress"], ["logs"]]
    done = []
    for batch_id in range(len(every)):
        before = files()
        cleaned.clear()
        sink(no_changes, batch_id)
        done.append([name for name, paths in files().items() if before[name] - paths] + cleaned)
    first = every.index(done[0])
    assert done == every[first:] + every[:first]
    assert check_lease.call_count == len(every)


def test_ends_are_counted_by_reason_and_the_table_names_the_newest_micro_batch(
    spark: SparkSession, location: TableLocation
) -> None:
    reports: list = []
    end = {"change": "ended", "ended_ms": NOW_MS}
    reasons = ["reported", "orphaned", "orphaned", "timed_out"]
    rows = [a_change(), *(a_change(**end, end_reason=reason) for reason in reasons)]
    changes_sink(location, reports, "its writer")(spark.createDataFrame(rows, OUTPUT_SCHEMA), 9)
    assert reports[0].ends == {"reported": 1, "superseded": 0, "timed_out": 1, "inactive": 0, "orphaned": 2}
    assert reports[0].rows_out == 5

    batch = spark.createDataFrame([a_change(session_id=3)], OUTPUT_SCHEMA)
    changes_sink(location, [], "its writer")(batch, 10)
    location.delta_table(spark, SESSION_CHANGES).optimize().executeCompaction()
    assert newest_appended_batch(location, spark, SESSION_CHANGES, "its writer") == 10
    assert newest_appended_batch(location, spark, SESSION_CHANGES, "its") == -1
    assert newest_appended_batch(location, spark, STREAM_PROGRESS, "its writer") == -1


def test_activities_are_counted_and_a_resumed_session_alone_is_written(
    spark: SparkSession, location: TableLocation
) -> None:
    for has_activity in (False, True, True):
        fit_to_events(spark, location, package_map(DEFAULT), ("title",), has_activity=has_activity)
    columns = location.read(spark.read, SESSION_CHANGES).columns
    assert columns[-3:] == ["change_date", "last_active_at", "title"], "labels are last"
    reports: list = []
    resumed = {"change": "resumed", "revision": 1, "duration_ms": None, "activity_counts": "[3,0,1,0]"}
    beat = {"change": "heartbeat", "beat": 3, "missed_beats": 0, "due_ms": NOW_MS, "last_active_ms": NOW_MS - 7}
    rows = [a_change(**resumed), a_change(change=None, activity_counts="[2,5,0,1]"), a_change(**beat)]
    sink = ChangesSink(SinkContext("sessionize", location, "w", listeners=(reports.append,)), has_activity=True)
    sink(spark.createDataFrame(rows, OUTPUT_SCHEMA), 0)
    inactive = a_change(change="ended", end_reason="inactive", ended_ms=NOW_MS)
    sink(spark.createDataFrame([inactive], OUTPUT_SCHEMA), 1)
    names = ("activities", "duplicate_activity", "late_activity", "resumed", "implied_starts")
    assert [tuple(getattr(report, name) for name in names) for report in reports] == [(5, 5, 1, 1, 1), (0,) * 5]
    assert reports[1].ends["inactive"] == 1
    written = location.read(spark.read, SESSION_CHANGES)
    shown = written.selectExpr("change", "end_reason", "unix_millis(last_active_at)").orderBy("change").collect()
    assert [tuple(row) for row in shown] == [
        ("ended", "inactive", None), ("heartbeat", None, NOW_MS - 7), ("resumed", None, None),
    ]  # fmt: skip


def test_a_row_that_breaks_a_constraint_stops_the_micro_batch_and_names_the_constraint(
    spark: SparkSession, location: TableLocation
) -> None:
    batch = spark.createDataFrame([a_change(change="ended")], OUTPUT_SCHEMA)
    with pytest.raises(Exception, match="reason_when_ended"):
        changes_sink(location, [])(batch, 6)
