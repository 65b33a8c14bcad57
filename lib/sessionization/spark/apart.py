"""How far apart the two queries that read were when a job before this one ended: a line for whoever begins a new checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from pyspark.sql import SparkSession

from sessionization.clock import utc
from sessionization.core.state import Rules
from sessionization.durations import DAY_MS, format_duration
from sessionization.spark.checkpoint import ARCHIVE, SESSIONIZE
from sessionization.spark.table_home import TableHome
from sessionization.spark.tables import RAW_EVENTS, STREAM_PROGRESS

_BY = f"by {STREAM_PROGRESS.name}"


@dataclass(frozen=True, slots=True)
class WorkedOff:
    """What a query has taken in under one checkpoint, by its rows of `stream_progress`.

    `reached_ms` is about the ingest time up to which it had taken all; None where it had taken nothing.
    """

    micro_batches: int
    newest: int
    messages: int
    quarantined: int
    reached_ms: int | None
    counts_changes: bool
    """Not so in real-time mode, where what is taken in counts whether valid or not."""

    @property
    def is_whole(self) -> bool:
        """Whether no row is missing between the first and the newest."""
        return self.micro_batches == self.newest + 1


NOTHING = WorkedOff(0, -1, 0, 0, None, counts_changes=True)


def how_far_apart(spark: SparkSession, home: TableHome, rules: Rules) -> str:
    """One line: how many events one of the queries had taken that the other had not, and what to do about it.

    `sessionize` has a micro-batch at every `--trigger`, also without input, so its newest number 0 is where the last
    checkpoint began.
    """
    progress = home.sql_name(STREAM_PROGRESS.name)
    rows = spark.sql(
        f"""
        SELECT query, count(*) AS micro_batches, max(batch_id) AS newest, sum(rows_in) AS messages,
               coalesce(sum(quarantined), 0) AS quarantined,
               max_by(unix_millis(processed_at) - coalesce(latency_max_ms, 0), batch_id) FILTER (WHERE rows_in > 0) AS reached_ms,
               count(started) > 0 AS counts_changes
        FROM {progress}
        WHERE query IN ('{SESSIONIZE}', '{ARCHIVE}') AND processed_at >= (
          SELECT max(processed_at) FROM {progress} WHERE query = '{SESSIONIZE}' AND batch_id = 0
        )
        GROUP BY query
        """
    ).collect()
    names = [field.name for field in fields(WorkedOff)]
    return line({row.query: WorkedOff(**{name: row[name] for name in names}) for row in rows}, rules)


def line(worked_off: Mapping[str, WorkedOff], rules: Rules) -> str:
    """The same, of what each query has worked off."""
    sessionize, archive = (worked_off.get(query, NOTHING) for query in (SESSIONIZE, ARCHIVE))
    # Until then the one that comes last may have been live, and would be merged as such: nothing would ever end it.
    later = format_duration(2 * rules.session_timeout_ms)
    if not (sessionize.is_whole and archive.is_whole and sessionize.micro_batches):
        return (
            f"--from-sessions: rows of {STREAM_PROGRESS.name} are missing, so it is not known how far apart {ARCHIVE} and "
            f"{SESSIONIZE} were; what only {ARCHIVE} had taken is in no session: later than {later} after this start "
            "backfill --verify tells"
        )
    # What archive alone had taken within them is in no session. It is merged with what is known to be missing.
    else_unknown = (
        f"; after a crash, or a stop that said {STREAM_PROGRESS.name} is behind, its end is not known: later than {later} "
        "after this start backfill --verify tells"
    )
    ahead = archive.messages - (archive.quarantined if sessionize.counts_changes else 0) - sessionize.messages
    if ahead > 0:
        return (
            f"--from-sessions: {ARCHIVE} had taken {ahead:,} events that {SESSIONIZE} had not, {_BY}: they are in "
            f"{RAW_EVENTS.name} and in no session; later than {later} after this start stop the job, run "
            f"backfill --from {_day(sessionize, archive, rules)} --merge, and start it again"
        )
    if ahead < 0:
        return (
            f"--from-sessions: {SESSIONIZE} had taken {-ahead:,} events that {ARCHIVE} had not, {_BY}: they are read again, "
            f"and known as repeats where their session was closed within {format_duration(rules.late_retention_ms)}"
            f"{else_unknown}"
        )
    return f"--from-sessions: {ARCHIVE} and {SESSIONIZE} had taken the same events, {_BY}{else_unknown}"


def _day(sessionize: WorkedOff, archive: WorkedOff, rules: Rules) -> str:
    """A day of ingest by which every session has begun that was live when `sessionize` was where it was."""
    reached_ms = min(at for at in (sessionize.reached_ms, archive.reached_ms) if at is not None)
    since_ms = reached_ms - max(DAY_MS, rules.session_timeout_ms)
    return utc(since_ms).date().isoformat()
