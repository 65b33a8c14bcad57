"""The whole flow on one page: messages -> events -> changes -> sessions, in three queries.

    messages --+-- parse ---------------------------> raw_events, quarantine    (query "archive")
               +-- parse -- SessionProcessor -------> session_changes           (query "sessionize")
                            session_changes -- fold -> sessions                 (query "rollup")

Each query has a checkpoint of its own: a slow MERGE never delays a heartbeat, and a bad message never reaches state.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from sessionization.core.session_state import RulesInForce
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.folder import ARCHIVE, QUERIES, ROLLUP, SESSIONIZE, Checkpoint
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.engine.session import use_scheduler_pool
from sessionization.spark.input.kafka_source import client_options
from sessionization.spark.input.parse import EventTimeLimits, parse, valid_events
from sessionization.spark.input.source import read_messages
from sessionization.spark.input.ticks import WakeUp, move_tick_origin_back, tick_stream
from sessionization.spark.operator.codec import PACKED_OUTPUT_SCHEMA, pack_event, unpack_rows
from sessionization.spark.operator.processor import GROUPING_KEY, SessionProcessor
from sessionization.spark.output import changes_topic, real_time
from sessionization.spark.output.progress import BatchProgress, last_engine_progress
from sessionization.spark.output.sinks import ArchiveSink, ChangesSink, RollupSink, Sink, StateSize
from sessionization.spark.output.state_entries import GroupEntryCounts
from sessionization.spark.tables import schemas
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.warm_start.initial_state import NO_INITIAL_STATE, InitialState

SLOWEST_FRESHNESS_MS = 5_000
"""`raw_events`, `quarantine` and `sessions` are brought up to date this often, or every trigger if that is longer."""
REAL_TIME_PACE_MS = 1_000
"""What the other two take for the trigger in real-time mode, where it says how long a batch lasts."""
_HEAD_START_S = 15


class Pipeline:
    """The three queries of a job. Each is started by its name, and may be started again after it has stopped."""

    def __init__(
        self,
        spark: SparkSession,
        settings: SessionizeSettings,
        checkpoint: Checkpoint,
        home: TableLocation,
        keep: Callable[[BatchProgress], None],
        report: Callable[[BatchProgress], None],
        before: InitialState = NO_INITIAL_STATE,
    ) -> None:
        """Prepare the queries; none is started.

        Args:
            spark: the session.
            settings: of the job.
            checkpoint: the opened one.
            home: where the tables are.
            keep: gets the row of each micro-batch before the micro-batch is done.
            report: gets it after that. In real-time mode `real_time.report_engine_batches` calls both for sessionize.
            before: what a warm start begins with.
        """
        self._spark, self._settings, self._checkpoint, self._home = spark, settings, checkpoint, home
        self._keep, self._report, self._before = keep, report, before
        self._is_real_time = settings.mode == "real-time"
        self._pace_ms = REAL_TIME_PACE_MS if self._is_real_time else settings.trigger
        self._slow_ms = max(self._pace_ms, SLOWEST_FRESHNESS_MS)
        self._brokers = client_options(spark, settings) if settings.sink == "kafka" else {}
        groups = checkpoint.layout.device_groups
        self._entries = None if groups is None else GroupEntryCounts(settings.heartbeat)
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
            for query in self.queries.values():
                with contextlib.suppress(Exception):
                    query.stop()
            raise

    def start_query(self, name: str, wake: WakeUp | None = None) -> None:
        """Start one query; `sessionize` then calls the keys of `wake`."""
        if name == ARCHIVE:
            messages_in = self._parsed(self._slow_ms)
            self._begin_writing(ARCHIVE, messages_in, ArchiveSink(*self._sink_arguments(ARCHIVE)), self._slow_ms)
        elif name == ROLLUP:
            merge = RollupSink(*self._sink_arguments(ROLLUP), has_changes=self._settings.sink != "kafka")
            self._begin_writing(ROLLUP, self._unmerged_changes(), merge, self._slow_ms)
        elif self._is_real_time:
            output_topic, trigger_ms = self._settings.output_topic, self._settings.trigger
            self._begin(
                SESSIONIZE, real_time.topic_writer(self._changes(None), self._brokers, output_topic, trigger_ms)
            )
        else:
            move_tick_origin_back(self._checkpoint.folder / SESSIONIZE)
            sink = ChangesSink(*self._sink_arguments(SESSIONIZE), self._state_size, self._publisher(), self._entries)
            self._begin_writing(SESSIONIZE, self._changes(wake), sink, self._settings.trigger)

    def _parsed(self, every_ms: int | None) -> DataFrame:
        """The messages with what they say, as many as may come within a trigger of `every_ms`; None for no bound."""
        settings = self._settings
        max_offsets = None if every_ms is None else settings.max_offsets_per_trigger * every_ms // self._pace_ms
        rows = read_messages(self._spark, settings, self._checkpoint.begun_ms, max_offsets, self._before.starts)
        return parse(rows, EventTimeLimits(settings.max_clock_skew, settings.max_event_age))

    def _changes(self, wake: WakeUp | None) -> DataFrame:
        # In real-time mode a batch has no bound but its duration, and needs nothing that makes it come.
        events = valid_events(self._parsed(None if self._is_real_time else self._pace_ms))
        seconds = None if self._is_real_time else tick_stream(self._spark, wake)
        return sessionize(events, seconds, self._checkpoint.layout, self._checkpoint.in_force, self._before.sessions)

    def _unmerged_changes(self) -> DataFrame:
        reader = self._spark.readStream.option("skipChangeCommits", "true")
        return self._home.read(reader, schemas.SESSION_CHANGES).where("change != 'heartbeat'")

    def _publisher(self) -> Callable[[DataFrame], None] | None:
        if not self._brokers:
            return None
        return partial(changes_topic.publish, options=self._brokers, output_topic=self._settings.output_topic)

    def _sink_arguments(
        self, name: str
    ) -> tuple[TableLocation, str, str, Callable[[BatchProgress], None], Callable[[BatchProgress], None]]:
        return self._home, name, self._checkpoint.writer(name), self._keep, self._report

    def _state_size(self) -> StateSize:
        last = last_engine_progress(self.queries.get(SESSIONIZE))
        if not last or not last["stateOperators"]:
            return StateSize()
        operator = last["stateOperators"][0]
        return StateSize(operator["numRowsTotal"], operator["memoryUsedBytes"])

    def _begin_writing(self, name: str, rows: DataFrame, sink: Sink, trigger_ms: int) -> None:
        self._begin(name, rows.writeStream.foreachBatch(sink).trigger(processingTime=f"{trigger_ms} milliseconds"))

    def _begin(self, name: str, writer: DataStreamWriter) -> None:
        use_scheduler_pool(self._spark, name)
        folder = self._checkpoint.of_query(name)
        self.queries[name] = writer.queryName(name).option("checkpointLocation", folder).start()


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
        ticks: `tick_stream`, which keeps micro-batches coming; None where they come by themselves.
        sessions: what is remembered before the first micro-batch, by grouping key (`codec.pack_seed`).

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
