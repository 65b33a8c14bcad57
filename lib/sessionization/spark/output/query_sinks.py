"""Where the rows of each query go, and how often: its sink, its trigger and its pace."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from sessionization.spark.checkpoint.backlog import first_unread_version
from sessionization.spark.checkpoint.folder import ARCHIVE, ROLLUP, SESSIONIZE
from sessionization.spark.input import source_tables
from sessionization.spark.input.kafka_source import client_options
from sessionization.spark.job_context import JobContext
from sessionization.spark.output import changes_topic, real_time
from sessionization.spark.output.progress import BatchListener, BatchProgress, last_engine_progress
from sessionization.spark.output.query_pace import QueryPace
from sessionization.spark.output.rollup_sink import RollupSink
from sessionization.spark.output.sinks import ArchiveSink, ChangesSink, Sink, SinkContext, to_session_changes
from sessionization.spark.output.state_entries import GroupEntryCounts
from sessionization.spark.tables import rollup

_SHARES = {ROLLUP: 0.3, ARCHIVE: 0.1}
"""The share of the time that a query may take. That of `rollup` is larger: people look at `sessions` more often."""


class QuerySinks:
    """Makes the writers of the queries. A query that starts again gets a new one."""

    def __init__(
        self,
        context: JobContext,
        store_row: Callable[[BatchProgress], None],
        listeners: Sequence[BatchListener],
        queries: Mapping[str, StreamingQuery],
    ) -> None:
        """Args: `queries` are those that run, by name; `sessionize` is asked for the size of its state."""
        self._context, self._store_row, self._listeners, self._queries = context, store_row, listeners, queries
        settings, layout = context.settings, context.checkpoint.layout
        self._every = {ARCHIVE: settings.pace.archive_every, ROLLUP: settings.pace.rollup_every}
        self._paces: dict[str, QueryPace] = {}
        self._brokers = client_options(context.spark, settings) if settings.sink.type == "kafka" else {}
        self._entry_counts = GroupEntryCounts(settings.rules.heartbeat_ms) if layout.has_groups else None

    def archive(self, parsed: DataFrame) -> DataStreamWriter:
        """Append parsed messages to `raw_events` and `quarantine`."""
        settings, versions_read = self._context.settings, None
        if settings.source.type == "table":
            query = self._context.checkpoint.folder / ARCHIVE
            versions_read = partial(
                source_tables.versions_read, query, streams=source_tables.in_order(settings.event_map)
            )
        sink = ArchiveSink(
            self._sink_context(ARCHIVE),
            skips=settings.event_map.skips(has_activity=settings.rules.of_sessions.has_activity),
            archives=settings.archives,
            versions_read=versions_read,
        )
        return self._write(parsed, sink)

    def changes(self, changes: DataFrame) -> DataStreamWriter:
        """Append the operator's output to `session_changes`, or send it to the topic."""
        settings, labels = self._context.settings, self._context.checkpoint.layout.labels
        has_activity = self._context.checkpoint.in_force.has_activity
        if self._context.is_real_time:
            rows = to_session_changes(changes, labels, has_activity=has_activity)
            return real_time.topic_writer(rows, self._brokers, settings.output_topic, settings.pace.trigger_ms)
        publish = partial(changes_topic.publish, options=self._brokers, output_topic=settings.output_topic)
        sink = ChangesSink(
            self._sink_context(SESSIONIZE),
            state_size=self._state_size,
            publish=publish if self._brokers else None,
            labels=labels,
            entry_counts=self._entry_counts,
            has_activity=has_activity,
        )
        return self._write(changes, sink)

    def sessions(self, changes: DataFrame) -> DataStreamWriter:
        """Merge rows of `session_changes` into `sessions`."""
        settings = self._context.settings
        sink = RollupSink(
            self._sink_context(ROLLUP),
            rollup.lookback(settings.rules.max_event_age_ms, settings.rules.session_timeout_ms),
            labels=self._context.checkpoint.layout.labels,
            has_activity=self._context.checkpoint.in_force.has_activity,
            compacts_changes=settings.sink.type != "kafka",
            first_unread=partial(first_unread_version, self._context.checkpoint.folder),
        )
        return self._write(changes, sink)

    def every_ms(self, query: str) -> int:
        """Return the shortest time from one micro-batch of a query to the next."""
        return self._every[query].shortest_ms if query in self._every else self._context.settings.pace.trigger_ms

    def end_rests(self, queries: Sequence[str]) -> None:
        """Let queries no longer rest between their micro-batches, because they are to stop."""
        for query in queries:
            if query in self._paces:
                self._paces[query].end()

    def _write(self, rows: DataFrame, sink: Sink) -> DataStreamWriter:
        trigger = f"{self.every_ms(sink.context.query)} milliseconds"
        return rows.writeStream.foreachBatch(sink).trigger(processingTime=trigger)

    def _sink_context(self, query: str) -> SinkContext:
        context = self._context
        if query in self._every:
            self._paces[query] = QueryPace(self._every[query], _SHARES[query])
        return SinkContext(
            query,
            context.location,
            context.checkpoint.writer_id(query),
            context.check_lease,
            self._store_row,
            self._listeners,
            self._paces.get(query),
        )

    def _state_size(self) -> tuple[int | None, int | None]:
        last = last_engine_progress(self._queries.get(SESSIONIZE))
        if not last or not last["stateOperators"]:
            return None, None
        operator = last["stateOperators"][0]
        return operator["numRowsTotal"], operator["memoryUsedBytes"]
