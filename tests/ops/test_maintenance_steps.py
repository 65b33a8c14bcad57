"""The steps of maintenance by table, the tables that it leaves alone, and the effect of a failed step."""

import threading
from collections.abc import Mapping

import pytest
from delta.exceptions import ConcurrentDeleteReadException
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Row

from sessionization.command_line import parser
from sessionization.durations import DAY_MS
from sessionization.errors import ConfigurationError, IncompleteWorkError
from sessionization.ops.maintain import Step, maintenance_steps, run_steps
from sessionization.ops.maintenance_settings import UNUSED_FILES_RETENTION_MS, MaintainSettings
from sessionization.spark.tables.conflicts import explain_conflict, is_conflict
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import (
    BACKFILL,
    JOB_LEASE,
    SESSION_PREDICTIONS,
    TABLES,
    Table,
)

LOCATION = TableLocation(catalog="main", schema="games")
WITH_OWN_RETENTION = {"sessions", "stream_progress"}
AS_CREATED = {table.name: dict(table.properties) for table in TABLES}


def planned_steps(
    retention_ms: int = UNUSED_FILES_RETENTION_MS, properties: Mapping[str, Mapping[str, str]] = AS_CREATED
) -> list[Step]:
    return maintenance_steps(LOCATION, 3, {table.name: retention_ms for table in TABLES}, properties)


def test_every_table_is_vacuumed_by_its_own_property_and_tables_as_created_need_no_other() -> None:
    """Not every runtime heeds RETAIN."""
    statements = [step.sql for step in planned_steps() if step.verb == "VACUUM"]
    assert statements == [f"VACUUM `main`.`games`.`{table.name}`" for table in TABLES]
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


class DatabricksError(PySparkException):
    """An error as a cluster raises it: with a condition and without a class of its own."""

    def __init__(self, condition: str, message: str) -> None:
        super().__init__(message=message)
        self._condition_ = condition

    def getCondition(self) -> str:  # noqa: N802
        return self._condition_


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConcurrentDeleteReadException(message="a file that was read is gone"), True),
        (DatabricksError("DELTA_CONCURRENT_APPEND.WITHOUT_HINT", "a conflict"), True),
        (Py4JError("An error:\n: io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND.X]"), True),
        (PySparkException(message="too many concurrent requests: slow down"), False),
        (PySparkException(message="no table of the name [DELTA_CONCURRENT_APPEND]"), False),
        (DatabricksError("DELTA_TABLE_NOT_FOUND", "concurrent"), False),
    ],
)
def test_a_concurrent_change_is_a_conflict_and_a_word_in_a_message_makes_none(
    error: Exception,
    expected: bool,  # noqa: FBT001
) -> None:
    assert is_conflict(error) is expected


def test_a_job_without_retries_explains_a_conflict_and_nothing_else() -> None:
    with pytest.raises(IncompleteWorkError, match="somebody changed sessions meanwhile"), explain_conflict("sessions"):
        raise ConcurrentDeleteReadException(message="a file is gone")
    with pytest.raises(PySparkException, match=r"^no space$"), explain_conflict("sessions"):
        raise PySparkException(message="no space")


def test_a_failure_skips_the_rest_of_its_table_and_a_conflict_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _s: None)
    executed: list[str] = []
    lines: list[str] = []

    def run(sql: str) -> list[Row]:
        executed.append(sql)
        if sql.startswith("OPTIMIZE") and "raw_events" in sql:
            raise PySparkException(message="too many concurrent requests")
        is_busy = "session_changes" in sql and executed.count(sql) < 3
        if sql.startswith("VACUUM") and ("quarantine" in sql or is_busy):
            raise ConcurrentDeleteReadException(message="somebody was first")
        return []

    failures = run_steps(planned_steps(), run, lines.append, threading.Event())
    assert failures == ["OPTIMIZE of raw_events failed: too many concurrent requests"]
    assert "VACUUM of quarantine is put off to the next time: somebody was first" in lines
    assert "VACUUM `main`.`games`.`raw_events`" not in executed
    assert executed[-1] == "VACUUM `main`.`games`.`stream_progress`"
    assert "VACUUM of session_changes is done" in lines, "after two conflicts"


def test_a_stop_skips_the_remaining_steps() -> None:
    stop, lines = threading.Event(), []
    assert run_steps(planned_steps(), lambda _sql: stop.set(), lines.append, stop) == []
    assert lines == ["OPTIMIZE of session_changes is done", "stopped; the rest is left to the next time"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("--catalog=main --schema=games --retention=1d", "--retention '1d' is too small: write at least 2d"),
        ("--warehouse=w", "--warehouse needs --checkpoints"),
        ("--catalog=main --schema=games --checkpoints=c --input-retention=59m", "--input-retention '59m' is too small"),
    ],
)
def test_harmful_options_are_refused(argv: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parser.read_settings(MaintainSettings, argv.split())
