"""The whole flow on one page: messages -> events -> changes -> sessions, in three queries.

    messages --+-- parse ----------------------------> raw_events, quarantine    (query "archive")
               +-- parse --+- SessionProcessor ------> session_changes           (query "sessionize")
    ticks -----------------+
                             session_changes -- fold -> sessions                 (query "rollup")

With `--sink kafka` the changes go to a topic, and jobs/land_changes.py appends them to session_changes.

Each query has its own checkpoint, so a slow MERGE delays no heartbeat. `sessionize` drops invalid messages, so none
reaches state.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from sessionization.clock import wall_clock_ms
from sessionization.core.session_state import RulesInForce
from sessionization.errors import CheckpointError
from sessionization.spark.checkpoint.backlog import first_unread_version
from sessionization.spark.checkpoint.file_source_log import (
    LARGE_LOG_BYTES,
    forget_deleted_files,
    forget_merged_takes,
    log_bytes,
)
from sessionization.spark.checkpoint.folder import ARCHIVE, QUERIES, ROLLUP, SESSIONIZE
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.engine.session import cores_of, use_scheduler_pool
from sessionization.spark.input.kafka_source import client_options
from sessionization.spark.input.parse import EventTimeLimits, parse, valid_events
from sessionization.spark.input.source import input_files, read_messages
from sessionization.spark.input.ticks import tick_stream
from sessionization.spark.job_context import JobContext
from sessionization.spark.operator.codec import PACKED_OUTPUT_SCHEMA, pack_event, unpack_rows
from sessionization.spark.operator.processor import GROUPING_KEY, SessionProcessor
from sessionization.spark.output import changes_topic, real_time
from sessionization.spark.output.keeping_up import KeepingUp
from sessionization.spark.output.progress import BatchListener, BatchProgress, last_engine_progress
from sessionization.spark.output.query_pace import QueryPace
from sessionization.spark.output.rollup_sink import RollupSink
from sessionization.spark.output.sinks import ArchiveSink, ChangesSink, Sink, SinkContext, StateSize
from sessionization.spark.output.state_entries import GroupEntryCounts
from sessionization.spark.tables import rollup, schemas
from sessionization.spark.tables.batch_writer import BatchWriter
from sessionization.spark.warm_start.initial_state import NO_INITIAL_STATE, InitialState

_REAL_TIME_OFFSETS_PERIOD_MS = 1_000
"""For how long `--max-offsets-per-trigger` bounds the messages in real-time mode; elsewhere for one `--trigger`."""
_SHARES = {ROLLUP: 0.3, ARCHIVE: 0.1}
"""The share of the time that a query may take: `sessions` are wanted sooner than messages as they came."""
_HEAD_START_S = 15
"""How long archive and rollup wait at most for the first micro-batch of sessionize."""


class Pipeline:
    """The three queries of a job. Each is started by its name, and may be started again after it has stopped."""

    def __init__(
        self,
        context: JobContext,
        store_row: Callable[[BatchProgress], None],
        listeners: Sequence[BatchListener] = (),
        initial_state: InitialState = NO_INITIAL_STATE,
    ) -> None:
        """Prepare the queries; none is started.

        Args:
            context: the session, settings, checkpoint and tables of this start of the job.
            store_row: stores a micro-batch's row of `stream_progress`, before the engine commits the micro-batch.
            listeners: are called after that. In real-time mode `real_time.report_engine_batches` calls both for
                sessionize.
            initial_state: what a warm start begins with.
        """
        self._context, self._store_row, self._listeners = context, store_row, listeners
        self._initial_state = initial_state
        self._spark, self._settings, self._checkpoint = context.spark, context.settings, context.checkpoint
        self._offsets_period_ms = _REAL_TIME_OFFSETS_PERIOD_MS if context.is_real_time else context.settings.trigger
        self._every = {ARCHIVE: context.settings.archive_every, ROLLUP: context.settings.rollup_every}
        self._paces: dict[str, QueryPace] = {}
        self._brokers = client_options(context.spark, context.settings) if context.settings.sink == "kafka" else {}
        groups = context.checkpoint.layout.device_groups
        self._entry_counts = None if groups is None else GroupEntryCounts(context.settings.heartbeat, context.say)
        self._keeping_up = KeepingUp(
            context.settings.heartbeat,
            context.checkpoint.layout,
            context.say,
            context.state_partitions,
            partial(cores_of, context.spark),
        )
        self.queries: dict[str, StreamingQuery] = {}
        """The queries that were started, by name."""

    def start(self, stop: threading.Event, names: Sequence[str] = QUERIES) -> None:
        """Start queries in this order. If one cannot be started, those before it are stopped.

        Heartbeats come first: the others start once sessionize has done its first micro-batch, the largest one after an
        outage, or after `_HEAD_START_S`. `stop` ends that wait.
        """
        try:
            for name in names:
                self.start_query(name)
                if name == SESSIONIZE and names[-1] != SESSIONIZE:
                    _wait_for_first_micro_batch(self.queries[name], stop)
        except BaseException:  # on a cluster a query that was started would outlive this job
            self.end_rests()
            for query in self.queries.values():
                with contextlib.suppress(Exception):
                    query.stop()
            raise

    def start_query(self, name: str) -> None:
        """Start one query; raises `KeyError` for an unknown name."""
        start_by_name: dict[str, Callable[[], None]] = {
            ARCHIVE: self._start_archive,
            ROLLUP: self._start_rollup,
            SESSIONIZE: self._start_sessionize,
        }
        start_by_name[name]()

    def end_rests(self, names: Sequence[str] = QUERIES) -> None:
        """Let queries that are started not rest any more (`QueryPace`), because they are to stop."""
        for name in names:
            if name in self._paces:
                self._paces[name].end()

    def _start_archive(self) -> None:
        every_ms = max(self._offsets_period_ms, self._every[ARCHIVE].shortest_ms)
        self._start_with_sink(ARCHIVE, self._parsed_messages(every_ms), ArchiveSink(self._sink_context(ARCHIVE)))

    def _start_rollup(self) -> None:
        settings = self._settings
        lookback_ms = rollup.lookback(settings.max_event_age, settings.session_timeout)
        sink = RollupSink(
            self._sink_context(ROLLUP),
            lookback_ms,
            compacts_changes=settings.sink != "kafka",
            first_unread=partial(first_unread_version, self._checkpoint.folder),
        )
        self._start_with_sink(ROLLUP, self._unmerged_changes(), sink)

    def _start_sessionize(self) -> None:
        if self._context.is_real_time:
            topic, batch_ms = self._settings.output_topic, self._settings.trigger
            self._start_with_writer(SESSIONIZE, real_time.topic_writer(self._changes(), self._brokers, topic, batch_ms))
            return
        sink = ChangesSink(
            self._sink_context(SESSIONIZE),
            state_size=self._state_size,
            publish=self._publisher(),
            entry_counts=self._entry_counts,
            keeping_up=self._keeping_up,
        )
        self._start_with_sink(SESSIONIZE, self._changes(), sink)

    def _parsed_messages(self, every_ms: int | None) -> DataFrame:
        """Parse the messages; a micro-batch takes at most those of a trigger of `every_ms`, None for no bound."""
        settings = self._settings
        max_offsets = (
            None if every_ms is None else settings.max_offsets_per_trigger * every_ms // self._offsets_period_ms
        )
        created_ms, starts = self._checkpoint.created_ms, self._initial_state.start_offsets
        rows = read_messages(self._spark, settings, created_ms, max_offsets, starts)
        return parse(rows, EventTimeLimits(settings.max_clock_skew, settings.max_event_age))

    def _changes(self) -> DataFrame:
        # A real-time batch has no bound but its duration, and needs no ticks.
        is_real_time = self._context.is_real_time
        events = valid_events(self._parsed_messages(None if is_real_time else self._offsets_period_ms))
        if (unread_events := self._initial_state.unread_events) is not None:
            events = events.unionByName(unread_events)
        ticks = None if is_real_time else tick_stream(self._spark)
        return sessionize(
            events, ticks, self._checkpoint.layout, self._checkpoint.in_force, self._initial_state.sessions
        )

    def _unmerged_changes(self) -> DataFrame:
        reader = self._spark.readStream.option("skipChangeCommits", "true")
        if (version := self._initial_state.changes_version) is not None:
            reader = reader.option("startingVersion", version)  # the engine heeds it in a new checkpoint alone
        return self._context.location.read(reader, schemas.SESSION_CHANGES).where("change != 'heartbeat'")

    def _publisher(self) -> Callable[[DataFrame], None] | None:
        if not self._brokers:
            return None
        return partial(changes_topic.publish, options=self._brokers, output_topic=self._settings.output_topic)

    def _sink_context(self, name: str) -> SinkContext:
        context, checkpoint = self._context, self._checkpoint
        writer = BatchWriter(context.location, checkpoint.writer_id(name), context.check_lease)
        if name in self._every:
            self._paces[name] = QueryPace(self._every[name], _SHARES[name])
        return SinkContext(name, writer, self._store_row, self._listeners, self._paces.get(name))

    def _state_size(self) -> StateSize:
        last = last_engine_progress(self.queries.get(SESSIONIZE))
        if not last or not last["stateOperators"]:
            return StateSize()
        operator = last["stateOperators"][0]
        return StateSize(operator["numRowsTotal"], operator["memoryUsedBytes"])

    def _start_with_sink(self, name: str, rows: DataFrame, sink: Sink) -> None:
        trigger_ms = self._every[name].shortest_ms if name in self._every else self._settings.trigger
        self._start_with_writer(
            name, rows.writeStream.foreachBatch(sink).trigger(processingTime=f"{trigger_ms} milliseconds")
        )

    def _start_with_writer(self, name: str, writer: DataStreamWriter) -> None:
        use_scheduler_pool(self._spark, name)
        self._forget_deleted_files(name)
        folder = self._checkpoint.query_folder(name)
        self.queries[name] = writer.queryName(name).option("checkpointLocation", folder).start()

    def _forget_deleted_files(self, name: str) -> None:
        """Shorten a large log of Spark's file source; a failure is printed, and the query starts all the same."""
        query, folder = self._checkpoint.folder / name, self._settings.input
        try:
            if folder is None or log_bytes(query) <= LARGE_LOG_BYTES:
                return
            if isinstance(folder, Path):
                forget_merged_takes(query)
            else:
                forget_deleted_files(query, set(input_files(folder)), wall_clock_ms())
        except (CheckpointError, OSError) as error:
            self._context.say(f"query {name}: its log of files was not shortened: {error}")


def sessionize(
    events: DataFrame,
    ticks: DataFrame | None,
    layout: StateLayout,
    in_force: RulesInForce,
    sessions: DataFrame | None = None,
) -> DataFrame:
    """Events -> changes: the stateful operator over the grouping keys.

    Args:
        events: rows of `parse.EVENT_COLUMNS`.
        ticks: `tick_stream`, which has no rows and makes Spark plan micro-batches without input. None in real-time
            mode, where a batch always runs.
        sessions: what is remembered before the first micro-batch, by grouping key (`seed.pack_seed`).

    Returns:
        Rows of `codec.OUTPUT_SCHEMA`.
    """
    rows = events.select(layout.grouping_key().alias(GROUPING_KEY), pack_event().alias("event"))
    if ticks is not None:
        rows = rows.union(ticks.select(GROUPING_KEY, F.lit(None).cast("string").alias("event")))
    changes = rows.groupBy(GROUPING_KEY).transformWithState(
        statefulProcessor=SessionProcessor(layout, in_force),
        outputStructType=PACKED_OUTPUT_SCHEMA,
        outputMode="Update",
        timeMode="ProcessingTime",
        initialState=None if sessions is None else sessions.groupBy(GROUPING_KEY),
    )
    return unpack_rows(changes)


def _wait_for_first_micro_batch(query: StreamingQuery, stop: threading.Event) -> None:
    deadline_s = time.monotonic() + _HEAD_START_S
    while query.isActive and last_engine_progress(query) is None and time.monotonic() < deadline_s:
        if stop.wait(0.1):
            return
