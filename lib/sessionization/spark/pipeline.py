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
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from sessionization.core.state import RulesInForce
from sessionization.settings import SessionizeSettings
from sessionization.spark import real_time, tables, topic
from sessionization.spark.checkpoint import ARCHIVE, ROLLUP, SESSIONIZE, Checkpoint
from sessionization.spark.clock_back import Wake, move_tick_origin_back
from sessionization.spark.codec import PACKED_OUTPUT_SCHEMA, packed_event, unpacked
from sessionization.spark.entries import EntriesOfGroups
from sessionization.spark.kafka import client_options
from sessionization.spark.layout import Layout
from sessionization.spark.parse import EventTimeLimits, parse, valid_events
from sessionization.spark.processor import GROUPING_KEY, SessionProcessor
from sessionization.spark.progress import Progress, engine_progress
from sessionization.spark.session import in_pool
from sessionization.spark.sinks import ArchiveSink, ChangesSink, RollupSink, Sink, StateSize
from sessionization.spark.source import messages, ticks
from sessionization.spark.table_home import TableHome
from sessionization.spark.warm_start import NOTHING_BEFORE, Before

SLOWEST_FRESHNESS_MS = 5_000
"""`raw_events`, `quarantine` and `sessions` are brought up to date this often, or every trigger if that is longer."""
REAL_TIME_PACE_MS = 1_000
"""What the other two take for the trigger in real-time mode, where it says how long a batch lasts."""
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
) -> tuple[dict[str, StreamingQuery], Callable[[str, Wake | None], None]]:
    """Start the three queries; `stop` cuts the head start short.

    Of every micro-batch `keep` gets the row before it is done, and `report` hears after that; those of the sessionize query
    in real-time mode `real_time.told` tells.

    Heartbeats come first: the other two begin when the sessionize query has got through its first micro-batch, which
    after an outage is the largest, or after a while. `before` is what a warm start begins with.

    Returns:
        The queries by name, and what starts one again by its name after it has stopped; `sessionize` then calls the keys of a `Wake`.
    """
    limits = EventTimeLimits(settings.max_clock_skew, settings.max_event_age)
    is_real_time = settings.mode == "real-time"
    pace_ms = REAL_TIME_PACE_MS if is_real_time else settings.trigger
    slow_ms = max(pace_ms, SLOWEST_FRESHNESS_MS)

    def parsed(every_ms: int | None) -> DataFrame:
        max_offsets = None if every_ms is None else settings.max_offsets_per_trigger * every_ms // pace_ms
        return parse(messages(spark, settings, checkpoint.begun_ms, max_offsets, before.starts), limits)

    def changes(wake: Wake | None = None) -> DataFrame:
        # In real-time mode a batch has no bound but its duration, and needs nothing that makes it come.
        events = valid_events(parsed(None if is_real_time else pace_ms))
        seconds = None if is_real_time else ticks(spark, wake)
        return sessionize(events, seconds, checkpoint.layout, checkpoint.in_force, before.sessions)

    rows = home.read(spark.readStream.option("skipChangeCommits", "true"), tables.SESSION_CHANGES)

    brokers = client_options(spark, settings) if settings.sink == "kafka" else {}
    publish = partial(topic.publish, options=brokers, output_topic=settings.output_topic) if brokers else None

    queries: dict[str, StreamingQuery] = {}

    def begin(name: str, writer: DataStreamWriter) -> None:
        in_pool(spark, name)
        queries[name] = writer.queryName(name).option("checkpointLocation", checkpoint.of_query(name)).start()

    def run(name: str, frame: DataFrame, sink: Sink, trigger_ms: int) -> None:
        begin(name, frame.writeStream.foreachBatch(sink).trigger(processingTime=f"{trigger_ms} milliseconds"))

    def common(name: str) -> tuple[TableHome, str, str, Callable[[Progress], None], Callable[[Progress], None]]:
        return home, name, checkpoint.writer(name), keep, report

    entries = None if checkpoint.layout.device_groups is None else EntriesOfGroups(settings.heartbeat)

    def run_query(name: str, wake: Wake | None = None) -> None:
        if name == ARCHIVE:
            run(ARCHIVE, parsed(slow_ms), ArchiveSink(*common(ARCHIVE)), slow_ms)
        elif name == ROLLUP:
            merge = RollupSink(*common(ROLLUP), has_changes=settings.sink != "kafka")
            run(ROLLUP, rows.where("change != 'heartbeat'"), merge, slow_ms)
        elif is_real_time:
            begin(SESSIONIZE, real_time.writer(changes(), brokers, settings.output_topic, settings.trigger))
        else:
            move_tick_origin_back(checkpoint.folder / SESSIONIZE)
            state_size = lambda: _state_size(queries.get(SESSIONIZE))  # noqa: E731
            sink = ChangesSink(*common(SESSIONIZE), state_size, publish, entries)
            run(SESSIONIZE, changes(wake), sink, settings.trigger)

    try:
        run_query(SESSIONIZE)
        _wait_for_first_micro_batch(queries[SESSIONIZE], stop)
        run_query(ARCHIVE)
        run_query(ROLLUP)
    except BaseException:  # on a cluster a query that was started would outlive this job
        for query in queries.values():
            with contextlib.suppress(Exception):
                query.stop()
        raise
    return queries, run_query


def sessionize(
    events: DataFrame,
    ticks: DataFrame | None,
    layout: Layout,
    in_force: RulesInForce,
    sessions: DataFrame | None = None,
) -> DataFrame:
    """Events -> changes: the stateful operator over the grouping keys.

    Args:
        events: rows of `parse.EVENT_COLUMNS`.
        ticks: `source.ticks`, which keep micro-batches coming; None where they come by themselves.
        sessions: what is remembered before the first micro-batch, by grouping key (`codec.packed_seed`).

    Returns:
        Rows of `codec.OUTPUT_SCHEMA`.
    """
    rows = events.select(layout.grouping_key().alias(GROUPING_KEY), packed_event().alias("event"))
    if ticks is not None:
        rows = rows.union(ticks.select(GROUPING_KEY, F.lit(None).cast("string").alias("event")))
    changes = rows.groupBy(GROUPING_KEY).transformWithState(
        statefulProcessor=SessionProcessor(layout, in_force),
        outputStructType=PACKED_OUTPUT_SCHEMA,
        outputMode="Update",
        timeMode="ProcessingTime",
        initialState=None if sessions is None else sessions.groupBy(GROUPING_KEY),
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
