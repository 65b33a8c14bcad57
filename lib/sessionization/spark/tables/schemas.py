"""The Delta tables, as their files in `sessionization/sql/tables` create them.

A file is the one place that says a table's columns, comments, constraints and layout. What Python needs of them is
read from it here. docs/architecture.md, "The way of a column", names the other places that list columns.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from pyspark.sql.types import DataType, StructField, StructType

from sessionization.durations import DAY_MS, HOUR_MS
from sessionization.spark.tables.statements import read_statement

_COLUMN = re.compile(r"""^  (\w+) ([^'"]+?)( NOT NULL)? COMMENT (['"])(.*)\4,?$""", re.MULTILINE)
_PROPERTY = re.compile(r"""^  '(\S+)' =\s+(['"])(.*)\2,?$""", re.MULTILINE)
_PARTITIONS = re.compile(r"^PARTITIONED BY \((.+)\)$", re.MULTILINE)
CONSTRAINT = "delta.constraints."


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: Spark SQL type, comment, and whether null is allowed."""

    name: str
    type: str
    comment: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A Delta table: its columns, how its files are laid out, and the statement that creates it."""

    name: str
    columns: tuple[Column, ...] = ()
    partitioned_by: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    statement: str = ""

    @classmethod
    def created_by(cls, name: str, statement: str) -> Self:
        """The table that a statement creates, which is written as those in `sessionization/sql/tables` are."""
        columns = tuple(
            Column(column, " ".join(type_.split()), comment, not not_null)
            for column, type_, not_null, _quote, comment in _COLUMN.findall(statement)
        )
        partitions = _PARTITIONS.search(statement)
        properties = tuple((key, value) for key, _quote, value in _PROPERTY.findall(statement))
        return cls(name, columns, tuple(partitions[1].split(", ")) if partitions else (), properties, statement)

    @property
    def constraints(self) -> tuple[tuple[str, str], ...]:
        """The `CHECK` constraints by name."""
        return tuple(
            (key.removeprefix(CONSTRAINT), value) for key, value in self.properties if key.startswith(CONSTRAINT)
        )

    @property
    def column_names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def day_column(self) -> str | None:
        """The column that partitions the table by day, if there is one."""
        days = {column.name for column in self.columns if column.type == "date"}
        return next((name for name in self.partitioned_by if name in days), None)

    @property
    def schema(self) -> StructType:
        """The columns as a schema, all nullable, for rows that Python creates."""
        fields = [StructField(column.name, DataType.fromDDL(column.type)) for column in self.columns]
        return StructType(fields)


RETENTION_PROPERTIES = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")
_INTERVAL = re.compile(r"interval (\d+) (hour|day|week)s?")
_HOURS = {"hour": 1, "day": 24, "week": 7 * 24}
_DEFAULT_INTERVALS = dict(zip(RETENTION_PROPERTIES, ("interval 30 days", "interval 1 week"), strict=True))

_LOG_RETENTION_MS = 7 * DAY_MS


def retention_properties(unused_files_ms: int) -> list[tuple[str, str]]:
    """The properties that retain a table's unused files for this long, and its log no shorter; in whole hours."""
    retentions_ms = (max(unused_files_ms, _LOG_RETENTION_MS), unused_files_ms)
    return [
        (key, f"interval {-(-retention_ms // HOUR_MS)} hours")
        for key, retention_ms in zip(RETENTION_PROPERTIES, retentions_ms, strict=True)
    ]


def retention_ms_of(properties: Mapping[str, str], key: str) -> int | None:
    """The retention in milliseconds that the property `key` sets; None where its text is not understood."""
    match = _INTERVAL.fullmatch(properties.get(key, _DEFAULT_INTERVALS[key]).strip().lower())
    return None if match is None else int(match[1]) * _HOURS[match[2]] * HOUR_MS


LAYOUT_PROPERTY = "sessionization.layoutVersion"
"""Property of each table: the version of its layout.

Raise it where the release before would misread what this one writes, or lacks what this one needs.
"""
HEARTBEAT_PROPERTY = "sessionization.heartbeatMs"
"""Property of `sessions`: how often a live session emits a heartbeat. The view `live_sessions` needs it."""


def _read(name: str) -> Table:
    return Table.created_by(name, read_statement("tables", name))


SESSION_CHANGES = _read("session_changes")
SESSIONS = _read("sessions")
RAW_EVENTS = _read("raw_events")
QUARANTINE = _read("quarantine")
STREAM_PROGRESS = _read("stream_progress")
FIRST_START = ("started_at", "account_id", "platform")
"""The fields of `_first_start` in `sessions`, before those of the label columns."""
SKIPPED_COLUMN = Column("skipped", "bigint", "archive: events that the event map skips")
"""Added to `stream_progress` at the first start with a map that skips events."""
ACTIVITY_COLUMNS = (
    Column("activities", "bigint", "sessionize: Activities that were applied"),
    Column("duplicate_activity", "bigint", "sessionize: Activities that were no newer, or of sessions that are over"),
    Column("late_activity", "bigint", "sessionize: Activities of unknown sessions that opened none"),
    Column("resumed", "bigint", "sessionize: sessions that were inactive and went on"),
    Column("implied_starts", "bigint", "sessionize: Activities that opened a session, because its Start is missing"),
)
"""Added to `stream_progress` at the first start with an inactivity timeout."""
LAST_ACTIVE_COLUMN = Column("last_active_at", "timestamp", "heartbeats only: event time of the newest sign of life")
"""Added to `session_changes` likewise, before the label columns."""
ACTIVITY_CONSTRAINTS = {
    "known_change": "change IN ('started', 'heartbeat', 'ended', 'resumed')",
    "known_reason": "end_reason IS NULL OR "
    "end_reason IN ('reported', 'superseded', 'timed_out', 'inactive', 'orphaned')",
}
"""Constraints of older tables that refuse `resumed` and `inactive`, by name, with the condition that allows these.

The first start with an inactivity timeout drops them: to add others, Delta would read the whole table.
"""
TABLES = (SESSION_CHANGES, SESSIONS, RAW_EVENTS, QUARANTINE, STREAM_PROGRESS)
REQUIRED_TABLES = tuple(table for table in TABLES if table is not RAW_EVENTS)
"""Those of every job: with `--archive off` there is no `raw_events`."""
BACKFILL = Table("sessions_backfill", SESSIONS.columns)
"""Not in `TABLES`: the job backfill, not the stream, writes it, without partitions."""
JOB_LEASE = _read("job_lease")
"""Not in `TABLES`: a job that takes a lease creates it, and no checkpoint owns it."""
SESSION_PREDICTIONS = _read("session_predictions")
"""Not in `TABLES`: the job predict_remaining creates it, and no checkpoint owns it."""
PLAYER_DAYS = _read("player_days")
PLAYER_FIRST_DAYS = _read("player_first_days")
DAILY_ACTIVITY = _read("daily_activity")
RETENTION = _read("retention")
PLAYER_PROGRESS = _read("player_progress")
SESSION_FINDINGS = _read("session_findings")
FINDING_LIMITS = _read("finding_limits")
PLAYER_TABLES = (
    PLAYER_PROGRESS,
    PLAYER_FIRST_DAYS,
    PLAYER_DAYS,
    DAILY_ACTIVITY,
    RETENTION,
    SESSION_FINDINGS,
    FINDING_LIMITS,
)
"""Not in `TABLES`: the job players creates them, and no checkpoint owns them."""
