"""The steps of maintenance by table, the tables that it leaves alone, and the effect of a failed step."""

import threading
from collections import Counter
from collections.abc import Mapping
from datetime import date

import pytest
from delta.exceptions import ConcurrentDeleteReadException
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Row

from sessionization.command_line import parser
from sessionization.durations import DAY_MS
from sessionization.errors import ConfigurationError, IncompleteWorkError
from sessionization.ops.maintain import Step, deletions, maintenance_steps, run_steps
from sessionization.ops.maintenance_settings import MaintainSettings
from sessionization.spark.tables.conflicts import explain_conflict, is_conflict
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import (
    BACKFILL,
    JOB_LEASE,
    SESSION_PREDICTIONS,
    TABLES,
    UNUSED_FILES_RETENTION_MS,
    Table,
    retention_properties,
)

LOCATION = TableLocation(catalog="main", schema="games")
WITH_OWN_RETENTION = {"sessions", "stream_progress"}
AS_CREATED = {table.name: dict(table.properties) for table in TABLES}


def planned_steps(
    retention_ms: int = UNUSED_FILES_RETENTION_MS, properties: Mapping[str, Mapping[str, str]] = AS_CREATED
) -> list[Step]:
    return maintenance_steps(LOCATION, 3, {table.name: retention_ms for table in TABLES}, properties)


def test_past_days_are_compacted_and_today_is_not() -> None:
    assert [step.sql for step in planned_steps() if step.verb == "OPTIMIZE"] == [
        f"OPTIMIZE `main`.`games`.`{table}` WHERE {day} >= date_sub(current_date(), 3) AND {day} < current_date()"
        for table, day in (
            ("session_changes", "change_date"),
            ("raw_events", "ingest_date"),
            ("quarantine", "ingest_date"),
        )
    ]


def test_whole_days_of_old_rows_are_deleted_and_no_row_of_sessions() -> None:
    settings = parser.read_settings(MaintainSettings, ["--catalog=main", "--schema=games"])
    settings = settings.model_copy(update={"message_retention_ms": 30 * DAY_MS - 1})
    steps = deletions(LOCATION, settings, date(2026, 11, 25))
    assert [(step.sql, step.rows) for step in steps] == [
        (
            "DELETE FROM `main`.`games`.`session_changes` WHERE change_date < '2026-11-18' AND change = 'heartbeat'",
            "heartbeats before 2026-11-18",
        ),
        (
            "DELETE FROM `main`.`games`.`session_changes` WHERE change_date < '2025-10-21'",
            "changes before 2025-10-21",
        ),
        ("DELETE FROM `main`.`games`.`raw_events` WHERE ingest_date < '2026-10-26'", "messages before 2026-10-26"),
        ("DELETE FROM `main`.`games`.`quarantine` WHERE ingest_date < '2025-10-21'", "messages before 2025-10-21"),
        ("DELETE FROM `main`.`games`.`stream_progress` WHERE processed_at < '2025-10-21'", "rows before 2025-10-21"),
    ]


@pytest.mark.parametrize(("count", "line"), [(1234, "1,234 heartbeats"), (0, "0 heartbeats"), (-1, "heartbeats")])
def test_a_deletion_says_how_much_it_deleted(count: int, line: str) -> None:
    lines: list[str] = []
    step = Step("session_changes", "DELETE FROM session_changes WHERE old", "heartbeats before 2026-11-18")
    run_steps([step], lambda _sql: [Row(num_affected_rows=count)], lines.append, threading.Event())
    assert lines == [f"DELETE of session_changes is done, {line} before 2026-11-18"]


def test_sessions_is_not_compacted_since_the_stream_merges_into_it() -> None:
    assert "sessions" not in {step.table for step in planned_steps() if step.verb == "OPTIMIZE"}


def test_vacuum_uses_each_tables_own_property_since_not_every_runtime_heeds_retain() -> None:
    statements = [step.sql for step in planned_steps() if step.verb == "VACUUM"]
    assert statements == [f"VACUUM `main`.`games`.`{table.name}`" for table in TABLES]


def test_tables_as_created_need_no_change_of_properties() -> None:
    assert {step.verb for step in planned_steps()} == {"OPTIMIZE", "VACUUM"}


def test_another_retention_of_files_and_log_is_set_before_anything_is_deleted() -> None:
    by_table = {
        table.name: [step for step in planned_steps(14 * DAY_MS + 1) if step.table == table.name] for table in TABLES
    }
    for name, steps in by_table.items():
        verbs = [step.verb for step in steps]
        assert verbs == sorted(verbs), "ALTER, OPTIMIZE, VACUUM"
        assert ("ALTER" in verbs) is (name not in WITH_OWN_RETENTION)
    assert by_table["quarantine"][0].sql == (
        "ALTER TABLE `main`.`games`.`quarantine` SET TBLPROPERTIES "
        "('delta.logRetentionDuration' = 'interval 337 hours', "
        "'delta.deletedFileRetentionDuration' = 'interval 337 hours')"
    )


def test_only_a_table_with_unread_rows_has_a_longer_retention_and_only_while_it_has_them() -> None:
    longer = {table.name: UNUSED_FILES_RETENTION_MS for table in TABLES} | {"session_changes": 14 * DAY_MS}
    assert [step.table for step in maintenance_steps(LOCATION, 3, longer, AS_CREATED) if step.verb == "ALTER"] == [
        "session_changes"
    ]
    with_longer_retention = AS_CREATED | {"session_changes": dict(retention_properties(14 * DAY_MS))}
    assert [step.table for step in planned_steps(properties=with_longer_retention) if step.verb == "ALTER"] == [
        "session_changes"
    ], "and no longer"


@pytest.mark.parametrize(
    ("table", "verbs"),
    [(BACKFILL, ["ALTER", "VACUUM"]), (JOB_LEASE, ["VACUUM"]), (SESSION_PREDICTIONS, ["VACUUM"])],
    ids=["backfill", "lease", "predictions"],
)
def test_a_table_of_another_job_is_cleaned_too(table: Table, verbs: list[str]) -> None:
    known = {known.name: UNUSED_FILES_RETENTION_MS for known in (*TABLES, table)}
    steps = maintenance_steps(LOCATION, 3, known, AS_CREATED | {table.name: {}})
    assert [step.verb for step in steps if step.table == table.name] == verbs


def test_a_table_without_a_known_retention_is_left_alone() -> None:
    known = {table.name: UNUSED_FILES_RETENTION_MS for table in TABLES if table.name != "session_changes"}
    assert {step.table for step in maintenance_steps(LOCATION, 3, known, AS_CREATED)} == known.keys()


@pytest.mark.parametrize(
    ("properties", "is_set"),
    [
        ({"delta.logRetentionDuration": "interval 7 days"}, True),  # files: one week by default
        (
            {"delta.logRetentionDuration": "INTERVAL 1 WEEK", "delta.deletedFileRetentionDuration": "interval 2 days"},
            False,
        ),
        (
            {
                "delta.logRetentionDuration": "interval 168 hours",
                "delta.deletedFileRetentionDuration": "interval 48 hours",
            },
            False,
        ),
        ({"delta.deletedFileRetentionDuration": "interval 2 days"}, True),  # the log: 30 days by default
        (
            {
                "delta.logRetentionDuration": "interval 7 days 1 hour",
                "delta.deletedFileRetentionDuration": "interval 2 days",
            },
            True,
        ),
        ({}, True),
    ],
)
def test_a_retention_is_recognized_however_it_is_written(
    properties: dict[str, str],
    is_set: bool,  # noqa: FBT001
) -> None:
    steps = planned_steps(properties=AS_CREATED | {"quarantine": properties})
    assert [step.table for step in steps if step.verb == "ALTER"] == ["quarantine"] * is_set


class DatabricksError(PySparkException):
    """An error as a cluster raises it: with a condition and without a class of its own."""

    def __init__(self, condition: str, message: str) -> None:
        super().__init__(message=message)
        self._condition_ = condition

    def getCondition(self) -> str:  # noqa: N802
        return self._condition_


@pytest.mark.parametrize(
    "error",
    [
        ConcurrentDeleteReadException(message="a file that was read is gone"),
        DatabricksError("DELTA_CONCURRENT_APPEND.WITHOUT_HINT", "a conflict"),
        DatabricksError("DELTA_METADATA_CHANGED", "a conflict"),
        Py4JError(
            "An error occurred:\n: io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND.X] files"
        ),
    ],
)
def test_a_concurrent_change_is_a_conflict(error: Exception) -> None:
    assert is_conflict(error)


@pytest.mark.parametrize(
    "error",
    [
        PySparkException(message="too many concurrent requests: slow down"),
        PySparkException(message="no table of the name [DELTA_CONCURRENT_APPEND]"),
        DatabricksError("DELTA_TABLE_NOT_FOUND", "concurrent"),
        Py4JError("ConcurrentModificationException in a listener"),
    ],
)
def test_a_word_in_the_message_makes_no_conflict(error: Exception) -> None:
    assert not is_conflict(error)


def test_a_job_without_retries_explains_a_conflict() -> None:
    message = r"somebody changed sessions meanwhile \(a file is gone\): stop the sessionize job, and run this again"
    with pytest.raises(IncompleteWorkError, match=f"^{message}$"), explain_conflict("sessions"):
        raise ConcurrentDeleteReadException(message="a file is gone")


def test_any_other_failure_is_raised_unchanged() -> None:
    with pytest.raises(PySparkException, match=r"^no space$"), explain_conflict("sessions"):
        raise PySparkException(message="no space")


def test_a_failure_skips_the_rest_of_its_own_table_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _s: None)
    executed: list[str] = []
    lines: list[str] = []

    def run(sql: str) -> list[Row]:
        executed.append(sql)
        if sql.startswith("OPTIMIZE") and "raw_events" in sql:
            raise PySparkException(message="too many concurrent requests")
        if sql.startswith("VACUUM") and "quarantine" in sql:
            raise ConcurrentDeleteReadException(message="somebody was first")
        return []

    failures = run_steps(planned_steps(), run, lines.append, threading.Event())
    assert failures == ["OPTIMIZE of raw_events failed: too many concurrent requests"]
    assert "VACUUM of quarantine is put off to the next time: somebody was first" in lines
    assert "VACUUM `main`.`games`.`raw_events`" not in executed
    assert executed[-1] == "VACUUM `main`.`games`.`stream_progress`"


def test_a_step_with_a_conflict_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _s: None)
    tries = Counter[str]()

    def run(sql: str) -> list[Row]:
        tries[sql] += 1
        if sql.startswith("OPTIMIZE") and tries[sql] < 3:
            raise ConcurrentDeleteReadException(message="somebody was first")
        return []

    lines: list[str] = []
    assert run_steps(planned_steps(), run, lines.append, threading.Event()) == []
    assert all(line.endswith(" is done") for line in lines)
    assert {sql.partition(" ")[0]: count for sql, count in tries.items()} == {"OPTIMIZE": 3, "VACUUM": 1}


def test_a_stop_skips_the_remaining_steps() -> None:
    stop, lines = threading.Event(), []
    assert run_steps(planned_steps(), lambda _sql: stop.set(), lines.append, stop) == []
    assert lines == ["OPTIMIZE of session_changes is done", "stopped; the rest is left to the next time"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("--catalog=main --schema=games --retention=1d", "--retention '1d' is too small: write at least 2d"),
        ("--catalog=main", "--schema is missing"),
        ("", "one location"),
        ("--warehouse=w", "--warehouse needs --checkpoints"),
        ("--catalog=main --schema=games --days=0", "--days '0' is too small"),
        ("--catalog=main --schema=games --heartbeat-retention=23h", "--heartbeat-retention '23h' is too small"),
        ("--catalog=main --schema=games --change-retention=6d", "--change-retention '6d' is too small"),
        ("--catalog=main --schema=games --message-retention=6d", "--message-retention '6d' is too small"),
        ("--catalog=main --schema=games --checkpoints=c --input-retention=59m", "--input-retention '59m' is too small"),
    ],
)
def test_harmful_options_are_refused(argv: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parser.read_settings(MaintainSettings, argv.split())
