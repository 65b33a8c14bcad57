"""The Delta tables: columns, comments, constraints and layout.

docs/architecture.md, "The way of a column", names the other places that list columns.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql.types import DataType, StructField, StructType

from sessionization.durations import DAY_MS, HOUR_MS
from sessionization.layout_version import TABLES_LAYOUT


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: Spark SQL type, comment, and whether null is allowed."""

    name: str
    type: str
    comment: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A Delta table: its columns, its `CHECK` constraints by name, and how its files are laid out."""

    name: str
    comment: str
    columns: tuple[Column, ...]
    constraints: tuple[tuple[str, str], ...] = ()
    partitioned_by: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()

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


UNUSED_FILES_RETENTION_MS = 2 * DAY_MS
"""How long files stay that a compaction has replaced. The log names each of them until then, at each checkpoint."""
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
"""Property of each table: the version of its layout (`layout_version`)."""
_AUTO_COMPACT = ("delta.autoOptimize.autoCompact", "true")
COMMON_PROPERTIES = (
    (LAYOUT_PROPERTY, str(TABLES_LAYOUT)),
    # The job commits once per second: a log checkpoint every ten commits would cost one second in ten.
    ("delta.checkpointInterval", "100"),
    # Every commit may list the log, and writes the unused files into its checkpoints. The rollup reads the log and
    # the files of session_changes.
    *retention_properties(UNUSED_FILES_RETENTION_MS),
)

_REWRITTEN_ALL_THE_TIME = (
    ("delta.logRetentionDuration", "interval 6 hours"),
    ("delta.deletedFileRetentionDuration", "interval 6 hours"),
)
"""For tables with a commit every few seconds, whose history nobody reads: Delta lists and rewrites less."""

_MESSAGE_COLUMNS = (
    Column("stream", "string", "pc_sessions or console_sessions", nullable=False),
    Column("partition", "int", "Kafka partition; null for files"),
    Column("offset", "bigint", "Kafka offset; null for files"),
    Column("file", "string", "file that held the line; null for Kafka"),
    Column("ingested_at", "timestamp", "broker timestamp, or the file's modification time", nullable=False),
    Column("value", "binary", "the message as it came (of a line over 64 KiB the beginning); cast it to string"),
    Column("ingest_date", "date", "date (UTC) on which the job took the message", nullable=False),
)

SESSION_CHANGES = Table(
    "session_changes",
    "One row per change of a session, append-only, exactly once",
    (
        Column("device_id", "string", "device, as reported", nullable=False),
        Column("session_id", "bigint", "session, as reported", nullable=False),
        Column("account_id", "string", "account of the session's Start, or of its End where the Start had none"),
        Column(
            "platform", "string", "pc or console: the stream of the Start; of an orphan, of its End", nullable=False
        ),
        Column("change", "string", "started, heartbeat or ended", nullable=False),
        Column("end_reason", "string", "reported, superseded, timed_out or orphaned; null unless ended"),
        Column("revision", "int", "0 unless a corrected end: 1, 2, ...", nullable=False),
        Column("started_at", "timestamp", "event time of the Start; null for an orphaned end"),
        Column("ended_at", "timestamp", "event time of the end; null unless ended"),
        Column("duration_ms", "bigint", "ended: ended_at - started_at; heartbeat: processed_at - opened; started: 0"),
        Column("foreground_s", "bigint", "seconds in the foreground, as the End reported"),
        Column("beat", "int", "heartbeats only: instants of the grid since the session was opened, from 1"),
        Column("missed_beats", "int", "heartbeats only: how many due instants before this one were skipped"),
        Column("due_at", "timestamp", "heartbeats only: the instant of the grid that this beat stands for"),
        Column("event_at", "timestamp", "event time of the event that caused it; null where a timer did"),
        Column("ingested_at", "timestamp", "ingest time of that event; null where a timer did"),
        Column("processed_at", "timestamp", "the micro-batch's clock", nullable=False),
        Column("change_date", "date", "date of processed_at (UTC)", nullable=False),
    ),
    constraints=(
        ("known_platform", "platform IN ('pc', 'console')"),
        ("known_change", "change IN ('started', 'heartbeat', 'ended')"),
        ("reason_when_ended", "(change = 'ended') = (end_reason IS NOT NULL)"),
        ("known_reason", "end_reason IS NULL OR end_reason IN ('reported', 'superseded', 'timed_out', 'orphaned')"),
        ("end_when_ended", "(change = 'ended') = (ended_at IS NOT NULL)"),
        ("never_negative", "duration_ms IS NULL OR duration_ms >= 0"),
        ("beat_when_heartbeat", "(change = 'heartbeat') = (beat IS NOT NULL AND due_at IS NOT NULL)"),
    ),
    # Nearly all rows are heartbeats: rollup reads none of their files, and old ones are deleted without being read.
    partitioned_by=("change_date", "change"),
)

HEARTBEAT_PROPERTY = "sessionization.heartbeatMs"
"""Property of `sessions`: how often a live session emits a heartbeat. The view `live_sessions` needs it."""

SESSIONS = Table(
    "sessions",
    "One row per session, kept up to date by MERGE",
    (
        Column("device_id", "string", "device, as reported", nullable=False),
        Column("session_id", "bigint", "session, as reported", nullable=False),
        Column("account_id", "string", "account of the Start, else of the end shown"),
        Column("platform", "string", "pc or console", nullable=False),
        Column("status", "string", "live until an end is known, then ended", nullable=False),
        Column("started_at", "timestamp", "event time of the Start; null while only an End is known"),
        Column("ended_at", "timestamp", "event time of the end; null while live"),
        Column("duration_ms", "bigint", "ended_at - started_at; null while live or without a Start"),
        Column("foreground_s", "bigint", "seconds in the foreground, as the End reported"),
        Column("end_reason", "string", "reported, superseded, timed_out; orphaned without a Start; null while live"),
        Column("revision", "int", "how often the end was corrected; 0 while live", nullable=False),
        Column("updated_at", "timestamp", "when the newest Start or end was processed", nullable=False),
        Column("_first_start", "struct<started_at: timestamp, account_id: string, platform: string>", "internal"),
        Column(
            "_shown_end",
            "struct<rank: int, revision: int, ended_at: timestamp, foreground_s: bigint, account_id: string,"
            " end_reason: string, platform: string>",
            "internal",
        ),
        Column("_part", "string", "internal: live, or the day (UTC) of the start, without a Start of the end"),
    ),
    constraints=(
        ("known_status", "status IN ('live', 'ended')"),
        ("end_when_ended", "(status = 'ended') = (ended_at IS NOT NULL)"),
        ("never_negative", "duration_ms IS NULL OR duration_ms >= 0"),
        ("part_of_status", "_part IS NOT NULL AND (status = 'live') = (_part = 'live')"),
    ),
    # A MERGE reads the live sessions, and the days that hold one of its sessions.
    partitioned_by=("_part",),
    # A session that ends changes one row: without these its whole file would be written again.
    properties=(("delta.enableDeletionVectors", "true"), *_REWRITTEN_ALL_THE_TIME),
)

RAW_EVENTS = Table(
    "raw_events",
    "Every message as it came, append-only, exactly once",
    _MESSAGE_COLUMNS,
    partitioned_by=("ingest_date",),
    properties=(_AUTO_COMPACT,),
)

QUARANTINE = Table(
    "quarantine",
    "Every message that is not a valid event, and why, append-only, exactly once",
    (
        *_MESSAGE_COLUMNS,
        Column("reason", "string", "why it is here; see docs/tables.md", nullable=False),
        Column("value_bytes", "bigint", "length of the message as it came, in bytes"),
    ),
    partitioned_by=("ingest_date",),
    properties=(_AUTO_COMPACT,),
)

STREAM_PROGRESS = Table(
    "stream_progress",
    "One row per query and micro-batch, append-only, exactly once",
    (
        Column("query", "string", "sessionize, archive or rollup", nullable=False),
        Column("batch_id", "bigint", "the query's micro-batch", nullable=False),
        Column("processed_at", "timestamp", "the micro-batch's clock, or when its sink began", nullable=False),
        Column("rows_in", "bigint", "sessionize: valid events; archive: messages; rollup: changes", nullable=False),
        Column("started", "bigint", "sessionize: changes of this kind"),
        Column("heartbeats", "bigint", "sessionize: changes of this kind"),
        Column("ended", "bigint", "sessionize: changes of this kind"),
        Column("duplicate_start", "bigint", "sessionize: Starts that said nothing new"),
        Column("duplicate_end", "bigint", "sessionize: Ends that said nothing new"),
        Column("evicted", "bigint", "sessionize: entries forgotten early because of --max-sessions-per-device"),
        Column("quarantined", "bigint", "archive: messages put into quarantine"),
        Column("batch_ms", "bigint", "from the micro-batch's clock to the commit of its rows"),
        Column("state_rows", "bigint", "sessionize: rows in state, as the engine reported last"),
        Column("state_bytes", "bigint", "sessionize: memory used by state, as the engine reported last"),
        Column("latency_p50_ms", "bigint", "from ingest to commit, of the rows that an event caused"),
        Column("latency_p99_ms", "bigint", "from ingest to commit"),
        Column("latency_max_ms", "bigint", "from ingest to commit"),
        Column("lateness_p50_ms", "bigint", "heartbeats: from due_at to commit"),
        Column("lateness_p99_ms", "bigint", "heartbeats: from due_at to commit"),
        Column("lateness_max_ms", "bigint", "heartbeats: from due_at to commit"),
        Column(
            "state_entries", "bigint", "sessionize: sessions remembered: live, closed, and Ends that wait for a Start"
        ),
        Column("reused_ids", "bigint", "rollup: Starts after the known end of a session with the same id"),
        Column("late_starts", "bigint", "rollup: other Starts of sessions that were over and forgotten"),
    ),
    properties=_REWRITTEN_ALL_THE_TIME,
)

TABLES = (SESSION_CHANGES, SESSIONS, RAW_EVENTS, QUARANTINE, STREAM_PROGRESS)

BACKFILL = replace(
    SESSIONS,
    name="sessions_backfill",
    comment="Sessions worked out anew by the job backfill",
    partitioned_by=(),
    properties=(),
)
"""Not in `TABLES`: the job backfill, not the stream, creates it."""

JOB_LEASE = Table(
    "job_lease",
    "One row per lease: which run may work on the tables, and until when",
    (
        Column("name", "string", "what is leased", nullable=False),
        Column("owner", "string", "id of the run that holds it; null once that run has given it up"),
        Column("job", "string", "the program that took it last", nullable=False),
        Column("host", "string", "the host of that program", nullable=False),
        Column("pid", "bigint", "the process of that program on its host", nullable=False),
        Column("pid_scope", "string", "boot and container in which the ids of the processes hold; null if unknown"),
        Column("engine_pid", "bigint", "the process of its engine on the same host; null if unknown"),
        Column("since", "timestamp", "when it was taken", nullable=False),
        Column("until", "timestamp", "when it ends or has ended; the holder renews it before", nullable=False),
    ),
    # A run writes the file of its own lease alone, so it conflicts only with a run that takes the same one.
    partitioned_by=("name",),
    properties=(
        ("delta.isolationLevel", "Serializable"),
        # A renewal writes one row; a mark of a deletion next to it would be a second file.
        ("delta.enableDeletionVectors", "false"),
        *_REWRITTEN_ALL_THE_TIME,
    ),
)
"""Not in `TABLES`: a job that takes a lease creates it, and no checkpoint owns it."""

SESSION_PREDICTIONS = Table(
    "session_predictions",
    "How long each live session will go on, written anew by the job predict_remaining",
    (
        Column("device_id", "string", "device, as reported", nullable=False),
        Column("session_id", "bigint", "session, as reported", nullable=False),
        Column("account_id", "string", "account of the session's Start"),
        Column("platform", "string", "pc or console", nullable=False),
        Column("started_at", "timestamp", "event time of the Start", nullable=False),
        Column("as_of", "timestamp", "the instant of the forecast: the stream's newest micro-batch", nullable=False),
        Column("age_ms", "bigint", "as_of - started_at", nullable=False),
        Column("remaining_p10_ms", "bigint", "one session in ten is over within this time after as_of", nullable=False),
        Column("remaining_p50_ms", "bigint", "half of such sessions are over within this time", nullable=False),
        Column("remaining_p90_ms", "bigint", "nine in ten are over within this time", nullable=False),
        Column("source", "string", "model, or baseline where the model does not beat it", nullable=False),
        Column("model_version", "string", "version of the registered model", nullable=False),
    ),
    constraints=(
        ("known_platform", "platform IN ('pc', 'console')"),
        ("known_source", "source IN ('model', 'baseline')"),
        (
            "quantiles_increase",
            "0 <= remaining_p10_ms AND remaining_p10_ms <= remaining_p50_ms AND remaining_p50_ms <= remaining_p90_ms",
        ),
    ),
    properties=_REWRITTEN_ALL_THE_TIME,
)
"""Not in `TABLES`: the job predict_remaining creates it, and no checkpoint owns it."""
