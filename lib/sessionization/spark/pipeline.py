"""The whole flow on one page: messages -> events -> changes -> sessions, in three queries.

    messages --+-- parse ----------------------------> raw_events, quarantine    (query "archive")
               +-- parse --+- SessionProcessor ------> session_changes           (query "sessionize")
    ticks -----------------+
                             session_changes -- fold -> sessions                 (query "rollup")

With `--sink kafka` the changes go to a topic, and jobs/land_changes.py appends them to session_changes.

Each query has its own checkpoint, so a slow MERGE delays no heartbeat. `sessionize` drops invalid messages, so none
reaches state. `job/queries.py` starts the queries, and starts them again.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

from sessionization.core.session_state import RulesInForce
from sessionization.settings.sessionize_settings import FilesSource
from sessionization.settings.table_source_settings import TableSource
from sessionization.spark.checkpoint.folder import ARCHIVE
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.input.parse import parse, valid_events
from sessionization.spark.input.source import Begin, read_messages
from sessionization.spark.input.ticks import tick_stream
from sessionization.spark.job_context import JobContext
from sessionization.spark.operator.event_text import pack_event
from sessionization.spark.operator.output_rows import packed_output_schema, unpack_rows
from sessionization.spark.operator.processor import GROUPING_KEY, SessionProcessor
from sessionization.spark.output.query_sinks import QuerySinks
from sessionization.spark.tables import schemas
from sessionization.spark.warm_start.initial_state import NO_INITIAL_STATE, InitialState

_REAL_TIME_OFFSETS_PERIOD_MS = 1_000
"""In real-time mode `--max-offsets-per-trigger` is per second. In micro-batch mode it is per `--trigger`."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The three queries of a job. Each method defines one, from its source to its sink, and starts nothing."""

    context: JobContext
    sinks: QuerySinks
    initial_state: InitialState = NO_INITIAL_STATE
    """What a warm start begins with."""

    def archive(self) -> DataStreamWriter:
        messages = self._messages(self.sinks.every_ms(ARCHIVE))  # stream, position, ingested_at, value
        parsed = parse(
            messages,
            self.context.settings.rules.of_event_times,
            self.context.settings.event_map,
            has_activity=self.context.settings.rules.of_sessions.has_activity,
        )  # with the parsed fields, and a reason for each invalid message
        return self.sinks.archive(parsed)  # -> raw_events, quarantine

    def sessionize(self) -> DataStreamWriter:
        is_real_time = self.context.is_real_time
        # A real-time batch has no bound but its duration, and needs no ticks.
        messages = self._messages(None if is_real_time else self.context.settings.pace.trigger_ms)
        ticks = None if is_real_time else tick_stream(self.context.spark)  # no rows
        layout, in_force = self.context.checkpoint.layout, self.context.checkpoint.in_force
        parsed = parse(
            messages,
            self.context.settings.rules.of_event_times,
            self.context.settings.event_map,
            layout.labels,
            has_activity=in_force.has_activity,
        )
        events = valid_events(parsed)  # EVENT_COLUMNS, and the labels
        if (unread := self.initial_state.unread_events) is not None:
            events = events.unionByName(unread)
        changes = session_changes(events, ticks, layout, in_force, self.initial_state.sessions)  # OUTPUT_SCHEMA
        return self.sinks.changes(changes)  # -> session_changes, or the topic

    def rollup(self) -> DataStreamWriter:
        changes = self._unmerged_changes()  # session_changes without heartbeats
        return self.sinks.sessions(changes)  # -> sessions

    def _messages(self, every_ms: int | None) -> DataFrame:
        """Stream the messages, as many per micro-batch as `every_ms` allows (`_most`); None for no bound."""
        most = None if every_ms is None else self._most(every_ms)
        initial = self.initial_state
        begin = Begin(self.context.checkpoint.created_ms, initial.start_offsets, initial.first_versions)
        return read_messages(self.context.spark, self.context.settings, most, begin)

    def _most(self, every_ms: int) -> int | None:
        """How many messages of Kafka, or bytes of tables, a micro-batch may read if `every_ms` lies between two.

        None for files.

        `archive` runs less often than `sessionize`, and reads as much: with `--trigger 1s` and
        `--max-offsets-per-trigger 1000` a micro-batch each 5 s reads at most 5,000.
        """
        settings = self.context.settings
        source = settings.source
        if isinstance(source, FilesSource):
            return None
        most = source.max_bytes_per_trigger if isinstance(source, TableSource) else source.max_offsets_per_trigger
        period_ms = _REAL_TIME_OFFSETS_PERIOD_MS if self.context.is_real_time else settings.pace.trigger_ms
        return most * max(every_ms, period_ms) // period_ms

    def _unmerged_changes(self) -> DataFrame:
        reader = self.context.spark.readStream.option("skipChangeCommits", "true")
        if (version := self.initial_state.changes_version) is not None:
            reader = reader.option("startingVersion", version)  # the engine heeds it in a new checkpoint alone
        return self.context.location.read(reader, schemas.SESSION_CHANGES).where("change != 'heartbeat'")


def session_changes(
    events: DataFrame,
    ticks: DataFrame | None,
    layout: StateLayout,
    in_force: RulesInForce,
    sessions: DataFrame | None = None,
) -> DataFrame:
    """Events -> changes: the stateful operator over the grouping keys.

    Args:
        events: rows of `parse.event_types`.
        ticks: `tick_stream`, which has no rows and makes Spark plan micro-batches without input. None in real-time
            mode, where a batch always runs.
        layout: the grouping key of a device.
        in_force: the session rules.
        sessions: what is remembered before the first micro-batch, by grouping key (`seed.pack_seed`).

    Returns:
        Rows of `output_rows.OUTPUT_SCHEMA`.
    """
    rows = events.select(layout.grouping_key().alias(GROUPING_KEY), pack_event(layout).alias("event"))
    if ticks is not None:
        rows = rows.union(ticks.select(GROUPING_KEY, F.lit(None).cast("string").alias("event")))
    changes = rows.groupBy(GROUPING_KEY).transformWithState(
        statefulProcessor=SessionProcessor(layout, in_force),
        outputStructType=packed_output_schema(layout),
        outputMode="Update",
        timeMode="ProcessingTime",
        initialState=None if sessions is None else sessions.groupBy(GROUPING_KEY),
    )
    return unpack_rows(changes)
