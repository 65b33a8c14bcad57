"""Run the pipeline: check the settings, start the queries, watch them, stop them gracefully, say what was done."""

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from sessionization.errors import ConfigurationError, StreamError
from sessionization.settings import SessionizeSettings
from sessionization.spark import pipeline, views
from sessionization.spark.causes import first_cause
from sessionization.spark.checkpoint import ARCHIVE, ROLLUP, SESSIONIZE, Fixed, open_checkpoint
from sessionization.spark.progress import Progress, wall_clock_ms
from sessionization.spark.session import on_databricks, spark_session
from sessionization.spark.tables import TableHome, create_tables
from sessionization.spark.totals import Delays, RunningTotals, Totals, batches_after, delays_since, live_now

_REPORT_EVERY_S = 5
_STOP_WITHIN_S = 40


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run did, once it has stopped."""

    seconds: float
    totals: Totals
    live: int
    delays: Delays


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told what while the job runs.

    `started` and `stopped` get the session and the tables' home, once the queries run and once they have stopped.
    """

    say: Callable[[str], None]
    started: Callable[[SparkSession, TableHome], None] = lambda _spark, _home: None
    progress: Callable[[Progress], None] = lambda _progress: None
    stopped: Callable[[SparkSession, TableHome], None] = lambda _spark, _home: None


def run(settings: SessionizeSettings, stop: threading.Event, watch: Watch) -> Summary:
    """Run until `stop` is set or `settings.run_for` is over; a restart with the same checkpoint goes on from there.

    Raises `ConfigurationError` or `CheckpointError` before anything is started, and `StreamError` when a query
    ended on its own.
    """
    home = TableHome(settings.warehouse, settings.catalog, settings.schema_name)
    _check_folders(settings)
    checkpoint = open_checkpoint(settings.checkpoints, Fixed.of(settings, str(home)), settings.rules)
    engine_log = checkpoint.folder / "engine.log"
    watch.say(f"starting; tables in {home}, checkpoints in {checkpoint.folder}")
    spark = spark_session(engine_log)
    try:
        with _plain_errors(f"the tables in {home} cannot be opened or created"):
            create_tables(spark, home, owner=checkpoint.id, may_create=not checkpoint.is_used)
            checkpoint.refuse_older_than(batches_after(spark, home, checkpoint.newest_batches()))
        began_ms = wall_clock_ms()
        totals = RunningTotals()

        def report(progress: Progress) -> None:
            totals.add(progress)
            watch.progress(progress)

        with _plain_errors("the queries cannot be started"):
            queries = pipeline.start(spark, settings, checkpoint, home, report)
            views.create_views(spark, home)
        watch.started(spark, home)
        try:
            _watch(queries, totals, settings.run_for, stop, watch.say)
        finally:
            watch.say("stopping: finishing the micro-batches that have begun")
            failed = _stop(queries)
        if failed:
            raise StreamError(_told(failed, engine_log))
        watch.stopped(spark, home)
        now_ms = wall_clock_ms()
        delays = delays_since(spark, home, began_ms, now_ms)
        return Summary((now_ms - began_ms) / 1000, totals.now()[0], live_now(spark, home), delays)
    finally:
        if not on_databricks():
            spark.stop()


def _check_folders(settings: SessionizeSettings) -> None:
    if settings.input is not None:
        try:
            with os.scandir(settings.input):
                pass
        except OSError as error:
            msg = (
                f"--input {settings.input} cannot be read ({error.strerror}): "
                "create it, or name the folder that holds pc_sessions and console_sessions"
            )
            raise ConfigurationError(msg) from error
    if settings.warehouse is not None:
        try:
            settings.warehouse.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=settings.warehouse):
                pass
        except OSError as error:
            msg = f"--warehouse {settings.warehouse} cannot be written ({error.strerror}): give a writable folder"
            raise ConfigurationError(msg) from error


def _watch(
    queries: dict[str, StreamingQuery],
    totals: RunningTotals,
    run_for_ms: int | None,
    stop: threading.Event,
    say: Callable[[str], None],
) -> None:
    """Wait for the end: of the time, by the signal, or of a query."""
    ends_s = None if run_for_ms is None else time.monotonic() + run_for_ms / 1000
    next_report_s = time.monotonic() + _REPORT_EVERY_S
    while all(query.isActive for query in queries.values()):
        now_s = time.monotonic()
        if now_s >= next_report_s:
            say(_progress_line(*totals.now()))
            next_report_s = now_s + _REPORT_EVERY_S
        if ends_s is not None and now_s >= ends_s:
            return
        if stop.wait(0.2 if ends_s is None else min(0.2, max(0.0, ends_s - now_s))):
            return


def _stop(queries: dict[str, StreamingQuery]) -> list[StreamingQuery]:
    """Stop each query between two micro-batches, and let `sessions` catch up with what was written.

    A query that does not come to rest in time is cut off; its micro-batch is repeated at the next start.

    Returns:
        The queries that had ended on their own.
    """
    failed = []
    deadline_s = time.monotonic() + _STOP_WITHIN_S
    for name in (SESSIONIZE, ROLLUP, ARCHIVE):
        query = queries[name]
        if name == ROLLUP:
            catch_up = threading.Thread(target=_catch_up, args=(query,), daemon=True)
            catch_up.start()
            catch_up.join(max(0.0, deadline_s - time.monotonic()) / 2)
        _wait_for_rest(query, deadline_s)
        if not query.isActive:
            failed.append(query)
        query.stop()
    return failed


def _wait_for_rest(query: StreamingQuery, deadline_s: float) -> None:
    """Wait until the micro-batch that now runs is done.

    Where micro-batches take longer than the trigger there is no pause between two: then the next has just begun, and
    is cut off before it has done any work.
    """

    def newest_done() -> int:
        last = query.lastProgress
        return -1 if last is None else int(last["batchId"])

    running = newest_done()
    while query.isActive and query.status["isTriggerActive"] and newest_done() == running:
        if time.monotonic() >= deadline_s:
            return
        time.sleep(0.01)


def _catch_up(query: StreamingQuery) -> None:
    with contextlib.suppress(Exception):  # a failed query raises here too, and is found by its having ended
        query.processAllAvailable()


def _told(failed: list[StreamingQuery], engine_log: Path) -> str:
    causes = "; ".join(f"query {query.name} stopped: {first_cause(str(query.exception() or '?'))}" for query in failed)
    where = "the cluster's log" if on_databricks() else str(engine_log)
    return f"{causes}; nothing is lost: mend the cause, start again with the same options (details: {where})"


@contextlib.contextmanager
def _plain_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (PySparkException, Py4JError) as error:
        msg = f"{what}: {first_cause(str(error))}"
        raise ConfigurationError(msg) from error


def _progress_line(totals: Totals, last: dict[str, Progress]) -> str:
    newest = last.get(SESSIONIZE)
    parts = [
        f"{totals.events:,} events in",
        f"{totals.started:,} started",
        f"{totals.heartbeats:,} heartbeats",
        f"{totals.ended:,} ended",
        f"{totals.repeated:,} repeated",
        f"{totals.quarantined:,} quarantined",
    ]
    if newest is not None:
        parts.append(f"micro-batch {newest.batch_id} took {newest.batch_ms:,} ms")
        if newest.lateness.p99_ms is not None:
            parts.append(f"heartbeats late by p99 {newest.lateness.p99_ms:,} ms")
    return ", ".join(parts)


def summary_lines(summary: Summary) -> list[str]:
    """The summary as a person reads it."""
    totals, delays = summary.totals, summary.delays
    return [
        f"ran {summary.seconds:,.0f} s",
        f"messages in      {totals.messages:,}, of which quarantined {totals.quarantined:,}",
        f"events in        {totals.events:,}, of which repeated {totals.repeated:,}"
        f" ({totals.duplicate_start:,} Starts, {totals.duplicate_end:,} Ends)",
        f"changes out      {totals.started:,} started, {totals.heartbeats:,} heartbeats, {totals.ended:,} ended",
        f"live now         {summary.live:,}",
        f"heartbeat lateness      p50 {_ms(delays.lateness_p50_ms)}, p99 {_ms(delays.lateness_p99_ms)}",
        f"event-to-table latency  p50 {_ms(delays.latency_p50_ms)}, p99 {_ms(delays.latency_p99_ms)}",
    ]


def _ms(value: int | None) -> str:
    return "-" if value is None else f"{value:,} ms"
