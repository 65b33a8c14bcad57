"""The sinks that append the micro-batches of a query. A repeated micro-batch is appended once (`SinkContext`)."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from sessionization.clock import wall_clock_ms
from sessionization.core.events import ChangeKind, EndReason
from sessionization.errors import StreamError
from sessionization.message_limits import SKIPPED
from sessionization.spark.checkpoint.folder import ARCHIVE, SESSIONIZE
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.engine.generated_code import generate_code
from sessionization.spark.operator.output_rows import ACTIVITY_COUNTS, label_columns
from sessionization.spark.output.progress import (
    BatchListener,
    BatchProgress,
    delay_instants,
    delay_percentiles,
    notify_listeners,
)
from sessionization.spark.output.query_pace import QueryPace
from sessionization.spark.output.state_entries import GroupEntryCounts
from sessionization.spark.tables.lease_table import no_lease
from sessionization.spark.tables.location import MAX_COMMITS_READ, TableLocation
from sessionization.spark.tables.schemas import LAST_ACTIVE_COLUMN, QUARANTINE, RAW_EVENTS, SESSION_CHANGES, Table

ROWS_PER_TASK = 50_000
"""A task writes so many rows in about a second. Fewer would make more files than the time is worth."""
GENERATE_CODE_ROWS_OF_BATCH = 10_000
"""After a micro-batch of so many rows a query generates code: its compilation then pays off within a minute."""
# The aggregates of every micro-batch are SQL text: as Columns they would take hundreds of calls to the JVM each time.
_CHANGE_COUNTS = (
    "max(processed_ms) AS processed_ms",
    *(f"coalesce(sum({name}), 0) AS {name}" for name in ("duplicate_start", "duplicate_end", "evicted")),
    "coalesce(sum(events), 0) AS rows_in",
    *(f"count_if(change = '{change}') AS {change}" for change in ("started", "heartbeat", "ended")),
    *(f"count_if(end_reason = '{reason}') AS {reason}" for reason in EndReason),
    f"{delay_instants('ingested_ms')} AS ingested",
    f"{delay_instants('due_ms')} AS due",
    "collect_list(CASE WHEN entries IS NOT NULL THEN struct(device_id, entries) END) AS entries",
    "count(*) AS rows_out",
)
_ACTIVITY_ARRAY = "from_json(activity_counts, 'array<bigint>')"
_ACTIVITY_COUNTS = (
    *(f"coalesce(sum(get({_ACTIVITY_ARRAY}, {at})), 0) AS {name}" for at, name in enumerate(ACTIVITY_COUNTS)),
    f"count_if(change = '{ChangeKind.RESUMED}') AS resumed",
)
INGEST_INSTANTS = f"{delay_instants('unix_millis(ingested_at)')} AS ingested"
_MESSAGE_COUNTS = (
    "count(*) AS rows_in",
    "count(reason) AS quarantined",
    "unix_millis(max(ingested_at)) AS newest_ms",
    INGEST_INSTANTS,
)
_SKIPPED_COUNT = (f"count_if(reason = '{SKIPPED}') AS skipped",)


def first_table_by_query(*, archives: bool) -> dict[str, Table]:
    """The table that each query appends to first. A checkpoint that fits has started every micro-batch in that table.

    `archives` tells whether `raw_events` gets the messages.
    """
    return {SESSIONIZE: SESSION_CHANGES, ARCHIVE: RAW_EVENTS if archives else QUARANTINE}


@dataclass(frozen=True, slots=True)
class SinkContext:
    """Where a query's sink writes and reports.

    `check_lease` raises `StreamError` where this run may not write any more (`lease.Lease.check`). `store_row` stores
    the row of `stream_progress` before the engine commits the micro-batch, so a kill loses no row. The `listeners` are
    called after that. With a `pace` the query then rests, and the engine commits the micro-batch after the rest.
    """

    query: str
    location: TableLocation
    writer_id: str
    check_lease: Callable[[], None] = no_lease
    store_row: Callable[[BatchProgress], None] = lambda _progress: None
    listeners: Sequence[BatchListener] = ()
    pace: QueryPace | None = None

    def append(self, rows: DataFrame, table: Table, batch_id: int) -> None:
        """Append a micro-batch's rows; a second call for the same table and micro-batch appends nothing.

        Delta stores in the commit which micro-batch of which writer it has (`txnAppId`, `txnVersion`), and skips one
        that the table has. So it does not matter who repeats a micro-batch: a restart, or a driver that hung
        (docs/adr/0029-one-path-of-appends.md).
        """
        self.check_lease()
        self.location.append(
            rows,
            table,
            txnAppId=self.writer_id,
            txnVersion=str(batch_id),
            userMetadata=f"{self.writer_id} {batch_id}",  # for `newest_appended_batch`, and for people
        )


def newest_appended_batch(location: TableLocation, spark: SparkSession, table: Table, writer_id: str) -> int:
    """The newest micro-batch that a writer has appended; -1 where the newest commits contain none.

    It reads the table's history, because Delta has no public call that returns the newest `txnVersion`.
    """
    commits = location.history(spark, table, MAX_COMMITS_READ).select("userMetadata").collect()
    written = ((row.userMetadata or "").rpartition(" ") for row in commits)
    return max((int(batch_id) for writer, _, batch_id in written if writer == writer_id), default=-1)


@dataclass
class Sink(ABC):
    """A `foreachBatch` function: write the micro-batch, store its row of `stream_progress`, then call the listeners.

    The sink caches the micro-batch first, so that the stateful operator runs exactly once. This also holds when
    the tables already have the rows, and the engine repeats the micro-batch only to commit its state.
    """

    context: SinkContext

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        began_ms, began_s = wall_clock_ms(), time.monotonic()
        batch = batch.persist()
        try:
            progress = self.write(batch, batch_id, began_ms)
            self.context.store_row(progress)
        except Exception as error:  # noqa: BLE001 - the text of any error must be short
            # The engine matches the text against a regular expression that overflows its stack on a long text.
            raise StreamError(root_cause(str(error))) from None
        finally:
            batch.unpersist()
        if max(progress.rows_in, progress.rows_out or 0) >= GENERATE_CODE_ROWS_OF_BATCH:
            generate_code(batch.sparkSession)  # each query has a session of its own
        notify_listeners(self.context.listeners, progress)
        if self.context.pace is not None:
            newest_ms = began_ms if progress.newest_ms is None else progress.newest_ms
            self.context.pace.rest(began_s, (began_ms - newest_ms) / 1_000)

    def _append(self, rows: DataFrame, count: int, table: Table, batch_id: int) -> None:
        """Append the micro-batch's `count` rows once, with one task and file for each `ROWS_PER_TASK` of them."""
        tasks = -(-count // ROWS_PER_TASK)
        self.context.append(rows.coalesce(tasks), table, batch_id)

    def _progress(self, counts: Row, batch_id: int, processed_ms: int, committed_ms: int) -> BatchProgress:
        """What every query reports of a micro-batch, from its columns `rows_in` and `ingested`."""
        return BatchProgress(
            query=self.context.query,
            batch_id=batch_id,
            processed_ms=processed_ms,
            rows_in=counts.rows_in,
            batch_ms=committed_ms - processed_ms,
            latency=delay_percentiles(counts.ingested, committed_ms),
        )

    @abstractmethod
    def write(self, batch: DataFrame, batch_id: int, began_ms: int) -> BatchProgress:
        """Write the rows and return their counts and delays; `began_ms` replaces the clock of an empty micro-batch."""


@dataclass
class ChangesSink(Sink):
    """Append the operator's changes to `session_changes`, or pass them to `publish`, which may get them again."""

    state_size: Callable[[], tuple[int | None, int | None]] = lambda: (None, None)
    """The rows and bytes of state that the operator held when the engine last reported them."""
    publish: Callable[[DataFrame], None] | None = None
    labels: Sequence[str] = ()
    """The label columns."""
    entry_counts: GroupEntryCounts | None = None
    """Counts the entries in the state of device groups; if None, each row of state is one entry."""
    has_activity: bool = False
    """Whether Activities are events: only then are they counted, and have heartbeats the newest sign of life."""

    def write(self, batch: DataFrame, batch_id: int, began_ms: int) -> BatchProgress:
        counts = batch.selectExpr(*_CHANGE_COUNTS, *(_ACTIVITY_COUNTS if self.has_activity else ())).first()
        assert counts is not None
        counted_ms = wall_clock_ms()
        changes = counts.started + counts.heartbeat + counts.ended + (counts.resumed if self.has_activity else 0)
        if changes:
            rows = to_session_changes(batch, self.labels, has_activity=self.has_activity)
            if self.publish is None:
                self._append(rows, changes, SESSION_CHANGES, batch_id)
            else:
                self.context.check_lease()
                self.publish(rows)
        committed_ms = wall_clock_ms()
        processed_ms = counts.processed_ms or began_ms
        state_rows, state_bytes = self.state_size()
        state_entries = (
            state_rows if self.entry_counts is None else self.entry_counts.after(processed_ms, counts.entries)
        )
        return replace(
            self._progress(counts, batch_id, processed_ms, committed_ms),
            lateness=delay_percentiles(counts.due, committed_ms),
            started=counts.started,
            heartbeats=counts.heartbeat,
            ended=counts.ended,
            duplicate_start=counts.duplicate_start,
            duplicate_end=counts.duplicate_end,
            evicted=counts.evicted,
            state_rows=state_rows,
            state_bytes=state_bytes,
            state_entries=state_entries,
            ends={str(reason): counts[str(reason)] for reason in EndReason},
            rows_out=counts.rows_out,
            **({name: counts[name] for name in (*ACTIVITY_COUNTS, "resumed")} if self.has_activity else {}),
            write_ms=max(0, committed_ms - counted_ms),
        )


@dataclass
class ArchiveSink(Sink):
    """Append every message to `raw_events`, and each message with a reason also to `quarantine`."""

    skips: bool = False
    """Whether the event map skips events. Those are counted, and are not in `quarantine`."""
    archives: bool = True
    """Whether `raw_events` gets the messages."""
    versions_read: Callable[[int], Mapping[str, int]] | None = None
    """Of a source of tables the version of each stream's table that a micro-batch has reached: its rows' `offset`."""

    def write(self, batch: DataFrame, batch_id: int, began_ms: int) -> BatchProgress:
        counts = batch.selectExpr(*_MESSAGE_COUNTS, *(_SKIPPED_COUNT if self.skips else ())).first()
        assert counts is not None
        counted_ms, skipped = wall_clock_ms(), counts.skipped if self.skips else None
        quarantined = counts.quarantined - (skipped or 0)
        if self.versions_read is not None:
            reached = [F.lit(part) for pair in self.versions_read(batch_id).items() for part in pair]
            batch = batch.withColumn("offset", F.create_map(*reached)[F.col("stream")].cast("bigint"))
        for table, rows, count in (
            (RAW_EVENTS, batch, counts.rows_in if self.archives else 0),
            (QUARANTINE, batch.where(f"reason != '{SKIPPED}'"), quarantined),
        ):
            if count:
                self._append(rows.select(*table.column_names), count, table, batch_id)
        committed_ms = wall_clock_ms()
        return replace(
            self._progress(counts, batch_id, began_ms, committed_ms),
            quarantined=quarantined,
            skipped=skipped,
            write_ms=max(0, committed_ms - counted_ms),
            newest_ms=counts.newest_ms,
        )


_OUTPUT_INSTANTS = {
    f"{name}_at": f"{name}_ms" for name in ("started", "ended", "due", "event", "ingested", "processed")
}


def _change_column(name: str) -> str:
    """SQL that computes a column of `session_changes` from the operator's output."""
    if name == "change_date":
        return "to_date(timestamp_millis(processed_ms)) AS change_date"
    if name in _OUTPUT_INSTANTS:
        return f"timestamp_millis({_OUTPUT_INSTANTS[name]}) AS {name}"
    return name


_CHANGE_COLUMNS = [_change_column(name) for name in SESSION_CHANGES.column_names]
_LAST_ACTIVE = f"timestamp_millis(last_active_ms) AS {LAST_ACTIVE_COLUMN.name}"


def to_session_changes(output: DataFrame, labels: Sequence[str] = (), *, has_activity: bool = False) -> DataFrame:
    """The changes in the operator's output (`output_rows.OUTPUT_SCHEMA`), in the columns of `session_changes`.

    `has_activity`: whether the table has `LAST_ACTIVE_COLUMN`.
    """
    changes = output.where("change IS NOT NULL")
    if labels:
        changes = changes.withColumn("labels", F.from_json("labels", "array<string>"))
    last_active = [_LAST_ACTIVE] if has_activity else []
    return changes.selectExpr(*_CHANGE_COLUMNS, *last_active, *label_columns("labels", labels))
