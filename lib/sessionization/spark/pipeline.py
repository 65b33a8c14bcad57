"""The whole flow on one page: messages -> events -> changes -> sessions, in three queries.

    messages --+-- parse ---------------------------> raw_events, quarantine    (query "archive")
               +-- parse -- SessionProcessor -------> session_changes           (query "sessionize")
                            session_changes -- fold -> sessions                 (query "rollup")

Each query has a checkpoint of its own: a slow MERGE never delays a heartbeat, and a bad message never reaches state.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from sessionization.settings import SessionizeSettings
from sessionization.spark import tables, topic
from sessionization.spark.checkpoint import ARCHIVE, ROLLUP, SESSIONIZE, Checkpoint
from sessionization.spark.codec import PACKED_OUTPUT_SCHEMA, packed_event, unpacked
from sessionization.spark.kafka import client_options
from sessionization.spark.layout import Layout
from sessionization.spark.parse import EventTimeLimits, parse, valid_events
from sessionization.spark.processor import GROUPING_KEY, RulesInForce, SessionProcessor
from sessionization.spark.progress import Progress, engine_progress
from sessionization.spark.session import in_pool
from sessionization.spark.sinks import ArchiveSink, ChangesSink, RollupSink, Sink, StateSize
from sessionization.spark.source import messages, ticks
from sessionization.spark.table_home import TableHome
from sessionization.spark.warm_start import NOTHING_BEFORE, Before

SLOWEST_FRESHNESS_MS = 5_000
"""`raw_events`, `quarantine` and `sessions` are brought up to date this often, or every trigger if that is longer."""
_HEAD_START_S = 15


def start(  # noqa: PLR0913 - what it needs beside what it reports to
    spark: SparkSession,
    settings: SessionizeSettings,
    checkpoint: Checkpoint,
    home: TableHome,
    keep: Callable[[Progress], None],
    report: Callable[[Progress], None],
    stop: threading.Event,
    before: Before = NOTHING_BEFORE,
) -> dict[str, StreamingQuery]:
    """Start the three queries; `stop` cuts the head start short.

    Of every micro-batch `keep` gets the row before it is done, and `report` hears after that.

    Heartbeats come first: the other two begin when the sessionize query has got through its first micro-batch, which
    after an outage is the largest, or after a while. `before` is what a warm start begins with.

    Returns:
        The queries by name.
    """
    limits = EventTimeLimits(settings.max_clock_skew, settings.max_event_age)
    slow_ms = max(settings.trigger, SLOWEST_FRESHNESS_MS)

    def parsed(every_ms: int) -> DataFrame:
        bound = settings.max_offsets_per_trigger
        max_offsets = None if bound is None else bound * every_ms // settings.trigger
        return parse(messages(spark, settings, checkpoint.begun_ms, max_offsets, before.taken), limits)

    events = valid_events(parsed(settings.trigger))
    changes = sessionize(events, ticks(spark), checkpoint.layout, checkpoint.in_force, before.sessions)
    rows = home.read(spark.readStream.option("skipChangeCommits", "true"), tables.SESSION_CHANGES)

    publish = None
    if settings.sink == "kafka":
        publish = partial(topic.publish, options=client_options(spark, settings))

    queries: dict[str, StreamingQuery] = {}

    def run(name: str, frame: DataFrame, sink: Sink, trigger_ms: int) -> None:
        in_pool(spark, name)
        queries[name] = (
            frame.writeStream.queryName(name)
            .foreachBatch(sink)
            .option("checkpointLocation", checkpoint.of_query(name))
            .trigger(processingTime=f"{trigger_ms} milliseconds")
            .start()
        )

    def common(name: str) -> tuple[TableHome, str, str, Callable[[Progress], None], Callable[[Progress], None]]:
        return home, name, checkpoint.writer(name), keep, report

    state_size = lambda: _state_size(queries.get(SESSIONIZE))  # noqa: E731
    try:
        run(SESSIONIZE, changes, ChangesSink(*common(SESSIONIZE), state_size, publish), settings.trigger)
        _wait_for_first_micro_batch(queries[SESSIONIZE], stop)
        run(ARCHIVE, parsed(slow_ms), ArchiveSink(*common(ARCHIVE)), slow_ms)
        run(ROLLUP, rows.where("change != 'heartbeat'"), RollupSink(*common(ROLLUP)), slow_ms)
    except BaseException:  # on a cluster a query that was started would outlive this job
        for query in queries.values():
            with contextlib.suppress(Exception):
                query.stop()
        raise
    return queries


def sessionize(
    events: DataFrame, ticks: DataFrame, layout: Layout, in_force: RulesInForce, sessions: DataFrame | None = None
) -> DataFrame:
    """Events -> changes: the stateful operator over the grouping keys.

    Args:
        events: rows of `codec.EVENT_SCHEMA`.
        ticks: a stream without rows that keeps micro-batches coming.
        sessions: what is remembered before the first micro-batch, by grouping key (`codec.packed_seed`).

    Returns:
        Rows of `codec.OUTPUT_SCHEMA`.
    """
    no_rows = ticks.selectExpr(
        *(f"CAST(NULL AS {field.dataType.simpleString()}) AS {field.name}" for field in events.schema)
    )
    changes = (
        events.union(no_rows)
        .select(layout.grouping_key().alias(GROUPING_KEY), packed_event().alias("event"))
        .groupBy(GROUPING_KEY)
        .transformWithState(
            statefulProcessor=SessionProcessor(layout, in_force),
            outputStructType=PACKED_OUTPUT_SCHEMA,
            outputMode="Update",
            timeMode="ProcessingTime",
            initialState=None if sessions is None else sessions.groupBy(GROUPING_KEY),
        )
    )
    return unpacked(changes)


def _wait_for_first_micro_batch(query: StreamingQuery, stop: threading.Event) -> None:
    deadline_s = time.monotonic() + _HEAD_START_S
    while query.isActive and engine_progress(query) is None and time.monotonic() < deadline_s:
        if stop.wait(0.1):
            return


def _state_size(query: StreamingQuery | None) -> StateSize:
    last = engine_progress(query)
    if not last or not last["stateOperators"]:
        return StateSize()
    operator = last["stateOperators"][0]
    return StateSize(operator["numRowsTotal"], operator["memoryUsedBytes"])
