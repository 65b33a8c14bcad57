"""Starts the queries of the pipeline, and starts one again after it has stopped."""

import contextlib
import math
import re
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql.streaming import StreamingQuery

from sessionization.clock import wall_clock_ms
from sessionization.errors import CheckpointError, StreamError
from sessionization.job.shutdown import wait_until_idle
from sessionization.spark.checkpoint.file_source_log import (
    LARGE_LOG_BYTES,
    forget_deleted_files,
    forget_merged_takes,
    log_bytes,
)
from sessionization.spark.checkpoint.folder import ARCHIVE, QUERIES, ROLLUP, SESSIONIZE
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.engine.session import use_scheduler_pool
from sessionization.spark.input.source import input_files
from sessionization.spark.job_context import JobContext
from sessionization.spark.output.progress import BatchListener, BatchProgress, last_engine_progress
from sessionization.spark.output.query_sinks import QuerySinks
from sessionization.spark.pipeline import Pipeline
from sessionization.spark.warm_start.initial_state import NO_INITIAL_STATE, InitialState

_HEAD_START_S = 15
"""How long archive and rollup wait at most for the first micro-batch of sessionize."""
_LOOK_EVERY_S = 60
_REPORT_EVERY_S = 5
_GROWTH = 2
_OTHER_COLUMNS = re.compile("DELTA_SCHEMA_CHANGED|assertion failed: Invalid batch")
"""Delta's error, and Spark's where the columns came between the plan of a micro-batch and its read."""
_ATTRIBUTE_NUMBER = re.compile(r"#\d+")
"""Spark numbers attributes anew in each plan."""


class Queries:
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
        self.by_name: dict[str, StreamingQuery] = {}
        """The queries that were started, by name."""
        self._context = context
        self._sinks = QuerySinks(context, store_row, listeners, self.by_name)
        pipeline = Pipeline(context, self._sinks, initial_state)
        self._define = {ARCHIVE: pipeline.archive, ROLLUP: pipeline.rollup, SESSIONIZE: pipeline.sessionize}
        self._log_limit_bytes = dict.fromkeys((SESSIONIZE, ARCHIVE), LARGE_LOG_BYTES)
        self._next_look_s = 0.0
        self._changed_columns: dict[str, str] = {}

    def start(self, stop: threading.Event, names: Sequence[str] = QUERIES) -> None:
        """Start queries in this order. If one cannot be started, those before it are stopped.

        Heartbeats come first: the others start once sessionize has done its first micro-batch, the largest one after an
        outage, or after `_HEAD_START_S`. `stop` ends that wait.
        """
        try:
            for name in names:
                self.start_query(name)
                if name == SESSIONIZE and names[-1] != SESSIONIZE:
                    _wait_for_first_micro_batch(self.by_name[name], stop)
        except BaseException:  # on a cluster a query that was started would outlive this job
            self.end_rests()
            for query in self.by_name.values():
                with contextlib.suppress(Exception):
                    query.stop()
            raise

    def start_query(self, name: str) -> None:
        """Start one query; raises `KeyError` for an unknown name."""
        writer = self._define[name]()
        use_scheduler_pool(self._context.spark, name)
        _shorten_log_of_files(self._context, name)
        folder = self._context.checkpoint.query_folder(name)
        self.by_name[name] = writer.queryName(name).option("checkpointLocation", folder).start()

    def watch(self, stop: threading.Event, report: Callable[[], None]) -> None:
        """Wait until `stop` is set or a query has ended; calls `report` every few seconds."""
        next_report_s = time.monotonic() + _REPORT_EVERY_S
        while all(query.isActive or self._restart_with_new_columns(name) for name, query in self.by_name.items()):
            if time.monotonic() >= next_report_s:
                report()
                next_report_s = time.monotonic() + _REPORT_EVERY_S
            if stop.wait(0.2):
                return
            self.shorten_logs(stop)

    def _restart_with_new_columns(self, name: str) -> bool:
        """Start a query again that has ended because a table that it streams has other columns; True if it has started.

        Delta reads on with a new column. It ends the query again, for the same reason and at once, where a column was
        dropped or has another type. Raises `StreamError` where the query cannot be started again.
        """
        query = self.by_name[name]
        cause = _ATTRIBUTE_NUMBER.sub("", root_cause(str(query.exception() or "")))
        has_come_on = last_engine_progress(query) is not None or self._changed_columns.get(name) != cause
        if _OTHER_COLUMNS.search(cause) is None or not has_come_on:
            return False
        self._changed_columns[name] = cause
        try:
            self.start_query(name)
        except Py4JNetworkError:
            raise
        except (PySparkException, Py4JError) as error:
            msg = f"query {name} cannot be started again with other columns of its table: {root_cause(str(error))}"
            raise StreamError(msg) from error
        self._context.say(f"query {name} has started again: a table that it reads has other columns")
        return True

    def end_rests(self, names: Sequence[str] = QUERIES) -> None:
        """Let queries no longer rest between their micro-batches, because they are to stop."""
        self._sinks.end_rests(names)

    def shorten_logs(self, stop: threading.Event) -> None:
        """Start a query again when its log of files has doubled since it was started, from `LARGE_LOG_BYTES` on.

        Looks once a minute. The log of a job whose input is never deleted grows on; the restarts then become rarer.
        Raises `StreamError` where a query cannot be started again.
        """
        if self._context.settings.input_folder is None or time.monotonic() < self._next_look_s:
            return
        self._next_look_s = time.monotonic() + _LOOK_EVERY_S
        for name, limit in self._log_limit_bytes.items():
            query, folder = self.by_name[name], self._context.checkpoint.folder / name
            before = log_bytes(folder)
            if before <= limit or not query.isActive:
                continue
            self.end_rests([name])
            try:
                wait_until_idle(query, math.inf, stop)
                if stop.is_set():
                    return
                query.stop()
                self.start_query(name)
            except Py4JNetworkError:  # the engine has died, and the job says so
                raise
            except (PySparkException, Py4JError, CheckpointError) as error:
                msg = f"query {name} cannot be started again to shorten its log of files: {root_cause(str(error))}"
                raise StreamError(msg) from error
            after = log_bytes(folder)
            self._log_limit_bytes[name] = max(LARGE_LOG_BYTES, _GROWTH * after)
            self._context.say(f"query {name} has started again; its log of files has {after:,} of {before:,} bytes")


def _wait_for_first_micro_batch(query: StreamingQuery, stop: threading.Event) -> None:
    deadline_s = time.monotonic() + _HEAD_START_S
    while query.isActive and last_engine_progress(query) is None and time.monotonic() < deadline_s:
        if stop.wait(0.1):
            return


def _shorten_log_of_files(context: JobContext, name: str) -> None:
    """Shorten a large log of Spark's file source; a failure is printed, and the query starts all the same."""
    query, folder = context.checkpoint.folder / name, context.settings.input_folder
    try:
        if folder is None or log_bytes(query) <= LARGE_LOG_BYTES:
            return
        if isinstance(folder, Path):
            forget_merged_takes(query)
        else:
            forget_deleted_files(
                query, set(input_files(folder, context.settings.event_map.stream_names)), wall_clock_ms()
            )
    except (CheckpointError, OSError) as error:
        context.say(f"query {name}: its log of files was not shortened: {error}")
