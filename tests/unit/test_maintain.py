"""What maintenance does to which table, what it leaves alone, and what it does when a step fails."""

import threading
from collections import Counter
from collections.abc import Mapping

import pytest
from delta.exceptions import ConcurrentDeleteReadException
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from sessionization.command_line import parser
from sessionization.durations import DAY_MS
from sessionization.errors import ConfigurationError, MaintenanceError
from sessionization.ops.maintain import Step, maintenance_steps, run_steps
from sessionization.ops.maintenance_settings import MaintainSettings
from sessionization.spark.tables.conflicts import explain_conflict, is_conflict
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import BACKFILL, PROPERTIES_OF_ALL, TABLES, retention

HOME = TableLocation(catalog="main", schema="games")
AS_CREATED = {table.name: dict(PROPERTIES_OF_ALL) | dict(table.properties) for table in TABLES}


def todo(retention_ms: int = 7 * DAY_MS, found: Mapping[str, Mapping[str, str]] = AS_CREATED) -> list[Step]:
    return maintenance_steps(HOME, 3, {table.name: retention_ms for table in TABLES}, found)


def test_days_that_are_over_are_compacted_and_today_is_not() -> None:
    assert [step.sql for step in todo() if step.verb == "OPTIMIZE"] == [
        f"OPTIMIZE `main`.`games`.`{table}` WHERE {day} >= date_sub(current_date(), 3) AND {day} < current_date()"
        for table, day in (
            ("session_changes", "change_date"),
            ("raw_events", "ingest_date"),
            ("quarantine", "ingest_date"),
        )
    ]


def test_a_merge_of_the_stream_meets_no_compaction() -> None:
    assert "sessions" not in {step.table for step in todo() if step.verb == "OPTIMIZE"}


def test_every_table_is_cleaned_by_its_own_property_for_not_every_runtime_heeds_retain() -> None:
    delete = [step.sql for step in todo() if step.verb == "VACUUM"]
    assert delete == [f"VACUUM `main`.`games`.`{table.name}`" for table in TABLES]


def test_tables_as_they_are_created_need_no_other_properties() -> None:
    assert {step.verb for step in todo()} == {"OPTIMIZE", "VACUUM"}


def test_another_retention_is_set_before_anything_is_deleted_for_files_and_log_alike() -> None:
    by_table = {table.name: [step for step in todo(14 * DAY_MS + 1) if step.table == table.name] for table in TABLES}
    for name, of_table in by_table.items():
        verbs = [step.verb for step in of_table]
        assert verbs == sorted(verbs), "ALTER, OPTIMIZE, VACUUM"
        assert ("ALTER" in verbs) is (name != "stream_progress"), "which has a retention of its own"
    assert by_table["sessions"][0].sql == (
        "ALTER TABLE `main`.`games`.`sessions` SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 337 hours', "
        "'delta.deletedFileRetentionDuration' = 'interval 337 hours')"
    )


def test_a_table_keeps_longer_what_is_still_to_be_read_and_the_others_do_not() -> None:
    longer = {table.name: 7 * DAY_MS for table in TABLES} | {"session_changes": 14 * DAY_MS}
    assert [step.table for step in maintenance_steps(HOME, 3, longer, AS_CREATED) if step.verb == "ALTER"] == [
        "session_changes"
    ]
    for_good = AS_CREATED | {"session_changes": dict(retention(14 * DAY_MS))}
    assert [step.table for step in todo(found=for_good) if step.verb == "ALTER"] == ["session_changes"], "and no longer"


def test_what_the_job_backfill_has_made_is_cleaned_likewise() -> None:
    known = {table.name: 7 * DAY_MS for table in (*TABLES, BACKFILL)}
    made = maintenance_steps(HOME, 3, known, AS_CREATED | {BACKFILL.name: {}})
    assert [step.verb for step in made if step.table == BACKFILL.name] == ["ALTER", "VACUUM"]


def test_a_table_of_which_nothing_is_known_is_left_alone() -> None:
    known = {table.name: 7 * DAY_MS for table in TABLES if table.name != "session_changes"}
    assert {step.table for step in maintenance_steps(HOME, 3, known, AS_CREATED)} == known.keys()


@pytest.mark.parametrize(
    ("properties", "is_set"),
    [
        ({"delta.logRetentionDuration": "interval 7 days"}, False),  # files: by default a week
        ({"delta.logRetentionDuration": "interval 168 hours", "delta.deletedFileRetentionDuration": "INTERVAL 1 WEEK"}, False),
        ({"delta.deletedFileRetentionDuration": "interval 7 days"}, True),  # the log: by default 30 days
        ({"delta.logRetentionDuration": "interval 7 days 1 hour"}, True),
        ({}, True),
    ],
)  # fmt: skip
def test_a_retention_is_known_however_it_is_written(properties: dict[str, str], is_set: bool) -> None:  # noqa: FBT001
    found = todo(found=AS_CREATED | {"sessions": properties})
    assert [step.table for step in found if step.verb == "ALTER"] == ["sessions"] * is_set


class OfDatabricks(PySparkException):
    """As a cluster raises it: a condition, and no class of its own."""

    def __init__(self, condition: str, message: str) -> None:
        super().__init__(message=message)
        self._condition_ = condition

    def getCondition(self) -> str:  # noqa: N802
        return self._condition_


@pytest.mark.parametrize(
    "error",
    [
        ConcurrentDeleteReadException(message="a file that was read is gone"),
        OfDatabricks("DELTA_CONCURRENT_APPEND.WITHOUT_HINT", "a conflict"),
        OfDatabricks("DELTA_METADATA_CHANGED", "a conflict"),
        Py4JError("An error occurred:\n: io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND.X] files"),
    ],
)  # fmt: skip
def test_a_change_by_somebody_else_is_a_conflict(error: Exception) -> None:
    assert is_conflict(error)


@pytest.mark.parametrize(
    "error",
    [
        PySparkException(message="too many concurrent requests: slow down"),
        PySparkException(message="no table of the name [DELTA_CONCURRENT_APPEND]"),
        OfDatabricks("DELTA_TABLE_NOT_FOUND", "concurrent"),
        Py4JError("ConcurrentModificationException in a listener"),
    ],
)
def test_a_word_makes_no_conflict(error: Exception) -> None:
    assert not is_conflict(error)


def test_who_does_not_try_again_is_told_what_to_do() -> None:
    told = r"somebody changed sessions meanwhile \(a file is gone\): stop the sessionize job, and run this again"
    with pytest.raises(MaintenanceError, match=f"^{told}$"), explain_conflict("sessions"):
        raise ConcurrentDeleteReadException(message="a file is gone")


def test_any_other_failure_is_told_as_it_is() -> None:
    with pytest.raises(PySparkException, match=r"^no space$"), explain_conflict("sessions"):
        raise PySparkException(message="no space")


def test_a_failure_leaves_the_rest_of_its_table_and_no_other_to_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _s: None)
    ran: list[str] = []
    said: list[str] = []

    def run(sql: str) -> None:
        ran.append(sql)
        if sql.startswith("OPTIMIZE") and "raw_events" in sql:
            raise PySparkException(message="too many concurrent requests")
        if sql.startswith("VACUUM") and "quarantine" in sql:
            raise ConcurrentDeleteReadException(message="somebody was first")

    failures = run_steps(todo(), run, said.append, threading.Event())
    assert failures == ["OPTIMIZE of raw_events failed: too many concurrent requests"]
    assert "VACUUM of quarantine is put off to the next time: somebody was first" in said
    assert "VACUUM `main`.`games`.`raw_events`" not in ran
    assert ran[-1] == "VACUUM `main`.`games`.`stream_progress`"


def test_who_was_second_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _s: None)
    tries = Counter[str]()

    def run(sql: str) -> None:
        tries[sql] += 1
        if sql.startswith("OPTIMIZE") and tries[sql] < 3:
            raise ConcurrentDeleteReadException(message="somebody was first")

    said: list[str] = []
    assert run_steps(todo(), run, said.append, threading.Event()) == []
    assert all(line.endswith(" is done") for line in said)
    assert {sql.partition(" ")[0]: count for sql, count in tries.items()} == {"OPTIMIZE": 3, "VACUUM": 1}


def test_a_stop_leaves_the_rest() -> None:
    stop, said = threading.Event(), []
    assert run_steps(todo(), lambda _sql: stop.set(), said.append, stop) == []
    assert said == ["OPTIMIZE of session_changes is done", "stopped; the rest is left to the next time"]


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ("--catalog=main --schema=games --retention=6d", "--retention '6d' is too small: write at least 7d"),
        ("--catalog=main", "go together"),
        ("", "one location"),
        ("--warehouse=w", "--warehouse needs --checkpoints"),
        ("--catalog=main --schema=games --days=0", "--days '0' is too small"),
        ("--catalog=main --schema=games --input-retention=7d", "--input-retention needs --checkpoints"),
        ("--catalog=main --schema=games --checkpoints=c --input-retention=59m", "--input-retention '59m' is too small"),
    ],
)
def test_what_would_harm_is_refused(argv: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        parser.read(MaintainSettings, argv.split())
