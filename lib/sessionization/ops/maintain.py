"""Delete old rows and unreferenced files, and compact past days, while the stream may run."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from sessionization.clock import utc, wall_clock_ms
from sessionization.durations import DAY_MS, format_duration
from sessionization.errors import IncompleteWorkError, SessionizationError
from sessionization.hadoop_path import AnyPath
from sessionization.ops.exclusive_tables import open_tables_exclusively
from sessionization.ops.input_files import delete_read_files
from sessionization.ops.maintenance_settings import UNUSED_FILES_RETENTION_MS, MaintainSettings
from sessionization.say import Say
from sessionization.spark.checkpoint.backlog import backlog_age_ms, retention_covering_backlog_ms
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.engine.newest import newest_update_ms
from sessionization.spark.tables.conflicts import is_conflict, retry_on_conflict
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import (
    BACKFILL,
    JOB_LEASE,
    PLAYER_TABLES,
    QUARANTINE,
    RAW_EVENTS,
    REQUIRED_TABLES,
    RETENTION_PROPERTIES,
    SESSION_CHANGES,
    SESSION_PREDICTIONS,
    SESSIONS,
    STREAM_PROGRESS,
    TABLES,
    Table,
    retention_ms_of,
    retention_properties,
)

_OPTIONAL_TABLES = (BACKFILL, JOB_LEASE, SESSION_PREDICTIONS, *PLAYER_TABLES)
"""Tables that other jobs create when they need them."""


@dataclass(frozen=True, slots=True)
class Step:
    """One SQL statement, and the table that it changes."""

    table: str
    sql: str

    @property
    def verb(self) -> str:
        return self.sql.partition(" ")[0]


def deletions(location: TableLocation, settings: MaintainSettings, today: date) -> list[Step]:
    """The statements that delete whole days of old rows.

    Where a table is partitioned by the columns of a condition, the statement reads no row.
    """

    def delete(table: Table, day: str, retention_ms: int, condition: str = "") -> Step:
        first_day = today - timedelta(days=-(-retention_ms // DAY_MS))
        sql = f"DELETE FROM {location.sql_name(table.name)} WHERE {day} < '{first_day}'{condition}"
        return Step(table.name, sql)

    changes_ms = settings.change_retention_ms
    return [
        delete(SESSION_CHANGES, "change_date", settings.heartbeat_retention_ms, " AND change = 'heartbeat'"),
        delete(SESSION_CHANGES, "change_date", changes_ms),
        delete(RAW_EVENTS, "ingest_date", settings.message_retention_ms),
        delete(QUARANTINE, "ingest_date", changes_ms),
        delete(STREAM_PROGRESS, "processed_at", changes_ms),
    ]


def maintenance_steps(
    location: TableLocation, days: int, retentions_ms: Mapping[str, int], found: Mapping[str, Mapping[str, str]]
) -> list[Step]:
    """The statements that compact and clean the tables, in order, table by table.

    No `OPTIMIZE` touches the current day, because the stream still writes to it. None touches `sessions` either: the
    stream compacts that table between two of its own MERGEs. If an `OPTIMIZE` and a MERGE change the same files, one of
    them fails, and a failed MERGE ends the stream.

    `VACUUM` takes the age of deletable files from a table property, because not every runtime heeds `RETAIN`. Where the
    property differs, it is set first. The table's log gets the same retention: neither may outlast the other. A table
    with its own retention (`sessions`, `stream_progress`) retains it.

    Args:
        location: where the tables are.
        days: how many past days are compacted, counted back from today.
        retentions_ms: the least age of a file that is deleted, by the table's name; a table without one is skipped.
        found: the properties of each table, by its name.
    """
    steps = []
    for table in (table for table in (*TABLES, *_OPTIONAL_TABLES) if table.name in retentions_ms):
        name, present = location.sql_name(table.name), found[table.name]
        own_ms = retention_ms_of(dict(table.properties), RETENTION_PROPERTIES[1])
        has_own_retention = own_ms is not None and own_ms < UNUSED_FILES_RETENTION_MS
        wanted = dict(retention_properties(retentions_ms[table.name]))
        if not has_own_retention and any(present.get(key) != value for key, value in wanted.items()):
            steps.append(Step(table.name, location.set_properties_sql(table, wanted)))
        if day := table.day_column:
            past_days = f"{day} >= date_sub(current_date(), {days}) AND {day} < current_date()"
            steps.append(Step(table.name, f"OPTIMIZE {name} WHERE {past_days}"))
        steps.append(Step(table.name, f"VACUUM {name}"))
    return steps


def maintain(settings: MaintainSettings, say: Say, stop: threading.Event) -> None:
    """Do the steps one after the other until `stop` is set; then delete input files that both queries have committed.

    Given a checkpoint, the rows of `session_changes` that the rollup has not read are protected from deletion.

    Raises `ConfigurationError` when the tables do not exist, `CheckpointError` as `open_tables_exclusively` does, and
    `IncompleteWorkError` at the end when a step failed.
    """
    with open_tables_exclusively(settings, REQUIRED_TABLES, say, stop) as (spark, location, check_leases):
        tables = location.present(spark, (*TABLES, *_OPTIONAL_TABLES))
        found = {table.name: location.properties(spark, table) for table in tables}
        retentions_ms = {table.name: settings.retention_ms for table in tables}
        failures = []
        if settings.state.checkpoints is not None:
            failures = _protect_backlog(spark, location, settings.state.checkpoints, retentions_ms, say)
        old_rows = deletions(location, settings, utc(wall_clock_ms()).date())
        todo = [step for step in old_rows if step.table in retentions_ms]
        todo += maintenance_steps(location, settings.days, retentions_ms, found)

        def run(sql: str) -> Sequence[Row]:
            check_leases()
            return spark.sql(sql).collect()

        failures += run_steps(todo, run, say, stop)
        if settings.state.checkpoints is not None and settings.input_retention_ms is not None and not stop.is_set():
            failures += _clear_input(settings.state.checkpoints, settings.input_retention_ms, say, stop)
    if failures:
        msg = f"not all is done: {'; '.join(failures)}: fix the cause, the next run does what this one could not"
        raise IncompleteWorkError(msg)


def run_steps(todo: Iterable[Step], run: Callable[[str], Sequence[Row]], say: Say, stop: threading.Event) -> list[str]:
    """Run the steps until `stop` is set; after an undone step the table's further steps wait for the next run.

    A step is put off if other writers change the same files on every attempt. That is not a failure.

    Returns:
        One text per failure, with its cause.
    """
    failures: list[str] = []
    skipped_tables: set[str] = set()
    for step in todo:
        if stop.is_set():
            say("stopped; the rest is left to the next time")
            break
        if step.table in skipped_tables:
            continue
        description = f"{step.verb} of {step.table}"
        try:
            result = retry_on_conflict(run)(step.sql)
        except (PySparkException, Py4JError) as error:
            cause = root_cause(str(error))
            skipped_tables.add(step.table)
            if is_conflict(error):
                say(f"{description} is put off to the next time: {cause}")
            else:
                say(f"{description} failed: {cause}")
                failures.append(f"{description} failed: {cause}")
        else:
            count = result[0][0] if step.verb == "DELETE" and result else -1  # Delta's too, without statistics
            say(f"{description} is done{f', {count:,} rows' if count >= 0 else ''}")
    return failures


def _protect_backlog(
    spark: SparkSession, location: TableLocation, checkpoints: AnyPath, retentions_ms: dict[str, int], say: Say
) -> list[str]:
    """Extend the retention of `session_changes` over the rollup's backlog; skip the table if the backlog is unknown."""
    name = SESSION_CHANGES.name
    newest_version = location.newest_version(spark, SESSION_CHANGES)
    merged_ms = newest_update_ms(location.read(spark.read, SESSIONS))
    try:
        behind_ms = backlog_age_ms(checkpoints, newest_version, merged_ms, wall_clock_ms())
    except SessionizationError as error:
        del retentions_ms[name]
        say(f"{name} is left alone: {error}")
        return [f"{name} is left alone, for what rollup has not read: {error}"]
    if (wanted_ms := retention_covering_backlog_ms(retentions_ms[name], behind_ms)) != retentions_ms[name]:
        retentions_ms[name] = wanted_ms
        days = behind_ms // DAY_MS
        say(f"rollup is {days} days behind in {name}: unused files and log are kept for {format_duration(wanted_ms)}")
    return []


def _clear_input(checkpoints: AnyPath, retention_ms: int, say: Say, stop: threading.Event) -> list[str]:
    try:
        count = delete_read_files(checkpoints, retention_ms, wall_clock_ms(), stop)
    except SessionizationError as error:
        say(f"input files are left alone: {error}")
        return [str(error)]
    say(f"{count:,} input files are deleted")
    return []
