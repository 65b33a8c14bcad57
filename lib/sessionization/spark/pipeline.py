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
from sessionization.settings.sessionize_settings import KafkaSource
from sessionization.spark.checkpoint.folder import ARCHIVE
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.input.parse import EventTimeLimits, parse, valid_events
from sessionization.spark.input.source import read_messages
from sessionization.spark.input.ticks import tick_stream
from sessionization.spark.job_context import JobContext
from sessionization.spark.operator.event_text import pack_event
from sessionization.spark.operator.output_rows import PACKED_OUTPUT_SCHEMA, unpack_rows
from sessionization.spark.operator.processor import GROUPING_KEY, SessionProcessor
from sessionization.spark.output.query_sinks import QuerySinks
from sessionization.spark.tables import schemas
from sessionization.spark.warm_start.initial_state import NO_INITIAL_STATE, InitialState

_REAL_TIME_OFFSETS_PERIOD_MS = 1_000
"""For how long `--max-offsets-per-trigger` bounds the messages in real-time mode; elsewhere for one `--trigger`."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The three queries of a job. Each method defines one, from its source to its sink, and starts nothing."""

    context: JobContext
    sinks: QuerySinks
    initial_state: InitialState = NO_INITIAL_STATE
    """What a warm start begins with."""

    def archive(self) -> DataStreamWriter:
        messages = self._messages(self.sinks.every_ms(ARCHIVE))  # stream, position, ingested_at, value
        parsed = parse(messages, self._limits())  # and what they say, with a reason where that is no valid event
        return self.sinks.archive(parsed)  # -> raw_events, quarantine

    def sessionize(self) -> DataStreamWriter:
        checkpoint, is_real_time = self.context.checkpoint, self.context.is_real_time
        # A real-time batch has no bound but its duration, and needs no ticks.
        messages = self._messages(None if is_real_time else self.context.settings.pace.trigger_ms)
        ticks = None if is_real_time else tick_stream(self.context.spark)  # no rows
        events = valid_events(parse(messages, self._limits()))  # EVENT_COLUMNS
        before, unread = self.initial_state.sessions, self.initial_state.unread_events
        events = events if unread is None else events.unionByName(unread)
        changes = sessionize(events, ticks, checkpoint.layout, checkpoint.in_force, before)  # OUTPUT_SCHEMA
        return self.sinks.changes(changes)  # -> session_changes, or the topic

    def rollup(self) -> DataStreamWriter:
        changes = self._unmerged_changes()  # session_changes without heartbeats
        return self.sinks.sessions(changes)  # -> sessions

    def _messages(self, every_ms: int | None) -> DataFrame:
        """Stream the messages.

        Args:
            every_ms: the time from one micro-batch to the next, for which one takes at most as many messages as
                `--max-offsets-per-trigger` allows in that time; None for no bound.
        """
        settings, max_offsets = self.context.settings, None
        if every_ms is not None and isinstance(settings.source, KafkaSource):
            period_ms = _REAL_TIME_OFFSETS_PERIOD_MS if self.context.is_real_time else settings.pace.trigger_ms
            max_offsets = settings.source.max_offsets_per_trigger * max(every_ms, period_ms) // period_ms
        created_ms, starts = self.context.checkpoint.created_ms, self.initial_state.start_offsets
        return read_messages(self.context.spark, settings, created_ms, max_offsets, starts)

    def _limits(self) -> EventTimeLimits:
        rules = self.context.settings.rules
        return EventTimeLimits(rules.max_clock_skew_ms, rules.max_event_age_ms)

    def _unmerged_changes(self) -> DataFrame:
        reader = self.context.spark.readStream.option("skipChangeCommits", "true")
        if (version := self.initial_state.changes_version) is not None:
            reader = reader.option("startingVersion", version)  # the engine heeds it in a new checkpoint alone
        return self.context.location.read(reader, schemas.SESSION_CHANGES).where("change != 'heartbeat'")


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
        layout: the grouping key of a device.
        in_force: the session rules.
        sessions: what is remembered before the first micro-batch, by grouping key (`seed.pack_seed`).

    Returns:
        Rows of `output_rows.OUTPUT_SCHEMA`.
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
