"""Run the pipeline: check the settings, start the queries, watch them, stop them gracefully, say what was done."""

import contextlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.databricks import on_databricks
from sessionization.errors import ConfigurationError, StoppedError, StreamError
from sessionization.files import is_reachable_folder
from sessionization.job import shutdown
from sessionization.job.clock_step import ClockStepDetector, restart_and_wake
from sessionization.job.delays import Delays
from sessionization.job.keeping_up import KeepingUp
from sessionization.job.totals import RunningTotals, Totals, count_live_sessions
from sessionization.ml.run_tracking import track_in_mlflow
from sessionization.monitor.batch_monitor import check_metrics_package, monitor_batches
from sessionization.say import Say
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.folder import Checkpoint, open_checkpoint
from sessionization.spark.checkpoint.folder_lock import lock_folder
from sessionization.spark.checkpoint.pinned_settings import PinnedSettings, explain_ignored_devices
from sessionization.spark.engine import watchdog
from sessionization.spark.engine.error_text import remedy_for, root_cause
from sessionization.spark.engine.session import has_session, job_session
from sessionization.spark.input.kafka_source import check_topics
from sessionization.spark.input.parse import STREAMS
from sessionization.spark.output import real_time
from sessionization.spark.output.progress import BatchProgress
from sessionization.spark.output.progress_log import ProgressLog
from sessionization.spark.output.sinks import FIRST_TABLE_APPENDED
from sessionization.spark.pipeline import Pipeline
from sessionization.spark.tables import views
from sessionization.spark.tables.creation import create_tables, refuse_missing_tables, take_over
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES
from sessionization.spark.warm_start.initial_state import InitialState, warm_start
from sessionization.stop_signals import stop_after, stop_on_signals


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run did, once it has stopped."""

    seconds: float
    totals: Totals
    live: int | None
    delays: Delays


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told what while the job runs.

    `started` and `stopped` get the session and the tables' home, once the queries run and once they have come to rest
    without a failure. `progress` is called on the queries' own threads. `routine` gets the line that comes every few
    seconds; without it `say` does.
    """

    say: Say
    started: Callable[[SparkSession, TableLocation], None] = lambda _spark, _home: None
    progress: Callable[[BatchProgress], None] = lambda _progress: None
    stopped: Callable[[SparkSession, TableLocation], None] = lambda _spark, _home: None
    routine: Say | None = None


def run(settings: SessionizeSettings, stop: threading.Event, watch: Watch) -> Summary:
    """Run until `stop` is set or `settings.run_for` is over; a restart with the same checkpoint goes on from there.

    Raises `ConfigurationError`, `CheckpointError` or `StoppedError` before anything is started, and `StreamError` when
    a query ended on its own.
    """
    if settings.mode == "real-time":
        real_time.check_runtime()
    home = TableLocation.of(settings)
    _check_folders(settings)
    check_metrics_package(settings.metrics_port)
    with lock_folder(settings.checkpoints, watch.say, stop), home.held_for_stream(watch.say, stop):
        checkpoint = open_checkpoint(
            settings.checkpoints,
            PinnedSettings.of(settings, str(home)),
            settings.rules,
            keep_groups=settings.expected_devices is not None,
            warm=settings.from_sessions,
        )
        engine_log = checkpoint.engine_log
        watch.say(f"starting; tables in {home}, checkpoints in {checkpoint.folder}, state {checkpoint.layout}")
        if (ignored := explain_ignored_devices(settings, checkpoint.folder, checkpoint.layout)) is not None:
            watch.say(ignored)
        with watchdog.explain_engine_death(engine_log), contextlib.ExitStack() as stack:
            is_ours = not has_session()
            with _plain_errors(f"Spark cannot be started (see {engine_log.with_suffix('.out')})"):
                spark = stack.enter_context(job_session(engine_log))
            stack.enter_context(watchdog.watch_for_hang(spark, engine_log, stop, watch.say, is_ours=is_ours))
            track = stack.enter_context(track_in_mlflow(settings, home, checkpoint.id, watch.say))
            watch = replace(watch, progress=_both(track, watch.progress))
            return _run(spark, settings, checkpoint, home, stop, watch)


def run_and_print_summary(settings: SessionizeSettings, say: Say) -> None:
    """Run until SIGTERM or Ctrl-C, and say how it goes: what `jobs/sessionize.py` and the notebook call."""
    with stop_on_signals() as stop:
        summary = run(settings, stop, Watch(say))
    for line in summary_lines(summary):
        say(line)


def _run(
    spark: SparkSession,
    settings: SessionizeSettings,
    checkpoint: Checkpoint,
    home: TableLocation,
    stop: threading.Event,
    watch: Watch,
) -> Summary:
    if settings.source == "kafka":
        with _unless_stopped(stop):
            check_topics(spark, settings, (*STREAMS, *((settings.output_topic,) if settings.sink == "kafka" else ())))
    # What a landing writes to folders at that moment might be replaced.
    alone = home.held(watch.say, stop) if checkpoint.is_taking_over else contextlib.nullcontext()
    with _unless_stopped(stop), _plain_errors(f"the tables in {home} cannot be opened or created"), alone:
        checkpoint, progress_log, before = _opened(spark, settings, checkpoint, home, watch.say)
    began_ms = wall_clock_ms()
    totals, keeping_up = RunningTotals(), KeepingUp(settings.heartbeat, checkpoint.layout, watch.say)
    is_real_time = settings.mode == "real-time"

    def report(progress: BatchProgress) -> None:
        progress = keeping_up.with_verdict(progress)
        totals.add(progress)
        clock.add(progress)
        monitor(progress)
        watch.progress(progress)

    batch_log = None if on_databricks() else checkpoint.batch_log
    with (
        progress_log.appended(spark, home, watch.say),
        # Before the monitor, which listens for the engine's word on what has been reported.
        real_time.report_engine_batches(spark, progress_log.keep, report, checkpoint.layout)
        if is_real_time
        else contextlib.nullcontext(),
        monitor_batches(spark, batch_log, settings.metrics_at, watch.say) as monitor,
    ):
        clock = ClockStepDetector.of(checkpoint)
        with _plain_errors("the queries cannot be started"):
            pipeline = Pipeline(spark, settings, checkpoint, home, progress_log.keep, report, before)
            pipeline.start(stop)

        def restart_if_clock_went_back() -> None:
            if not is_real_time and (back := clock.take()) is not None:
                restart_and_wake(spark, checkpoint, pipeline.queries, pipeline.start_query, back, stop, watch.say)

        try:
            with stop_after(stop, settings.run_for):
                watch.started(spark, home)
                warning = _vanished_streams(settings.input) if settings.input is not None else lambda: None
                routine = watch.routine or watch.say
                monitor_queries(pipeline.queries, totals, stop, watch.say, warning, routine, restart_if_clock_went_back)
        finally:
            is_appended_since = partial(home.is_appended_since, spark, SESSION_CHANGES)
            causes = shutdown.stop_queries(
                pipeline.queries, checkpoint.folder, is_appended_since, watch.say, is_real_time=is_real_time
            )
    if causes:
        raise StreamError(_told(causes, checkpoint.engine_log))
    seconds = (wall_clock_ms() - began_ms) / 1000
    try:
        watch.stopped(spark, home)
        live = count_live_sessions(spark, home)
    except (PySparkException, Py4JError) as error:  # all is written: this takes nothing back
        watch.say(f"the summary is incomplete, the tables are not: {root_cause(str(error))}")
        live = None
    return Summary(seconds, totals.now()[0], live, totals.delays())


def _opened(
    spark: SparkSession,
    settings: SessionizeSettings,
    checkpoint: Checkpoint,
    home: TableLocation,
    say: Say,
) -> tuple[Checkpoint, ProgressLog, InitialState]:
    """Create the tables, check them, or take them over: that last of all, for whatever refuses it leaves them as they are.

    Raises `ConfigurationError` or `CheckpointError`.
    """
    if checkpoint.is_taking_over:
        refuse_missing_tables(spark, home)
    else:
        create_tables(spark, home, owner=checkpoint.id, may_create=not checkpoint.is_used)
        checkpoint.keep()
    since_ms = checkpoint.begun_ms if checkpoint.is_warm else 0
    progress_log = ProgressLog(checkpoint.progress, checkpoint.newest_batches(), since_ms)
    checkpoint.refuse_older_than(progress_log.open(spark, home))
    checkpoint.refuse_older_than(
        {
            query: home.last_append(spark, table, checkpoint.writer(query))
            for query, table in FIRST_TABLE_APPENDED.items()
        }
    )
    with _plain_errors("--from-sessions: what it begins with cannot be told"):
        before = warm_start(spark, settings, checkpoint, home, say)
    if checkpoint.is_taking_over:
        checkpoint.keep_warm()
        take_over(spark, home, checkpoint.id)
        create_tables(spark, home, owner=checkpoint.id, may_create=False)
        checkpoint.keep()
    if home.warehouse is None:
        views.create_views(spark, home)
    return checkpoint.sending_to(settings.sink), progress_log, before


def _both(
    track: Callable[[BatchProgress], None], watch: Callable[[BatchProgress], None]
) -> Callable[[BatchProgress], None]:
    def tell(progress: BatchProgress) -> None:
        track(progress)
        watch(progress)

    return tell


def _vanished_streams(folder: Path) -> Callable[[], str | None]:
    """A check for stream folders that were there and are gone: the engine takes that for silence, and so times out."""
    seen: set[str] = set()

    def check() -> str | None:
        there = {stream for stream in STREAMS if is_reachable_folder(folder / stream)}
        seen.update(there)
        gone = ", ".join(sorted(seen - there))
        if not gone:
            return None
        return f"--input {folder}: {gone} has disappeared, so no event of it is read; is a mount gone? bring it back"

    return check


def _told(causes: list[str], engine_log: Path) -> str:
    where = "the cluster's log" if on_databricks() else str(engine_log)
    return f"{'; '.join(causes)}: {remedy_for(causes)} (details: {where})"


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


@contextlib.contextmanager
def _unless_stopped(stop: threading.Event) -> Iterator[None]:
    """Whoever has asked for a stop meanwhile need not hear what else is wrong."""
    try:
        yield
    finally:
        if stop.is_set():
            msg = "stopped before the queries were started"
            raise StoppedError(msg)


@contextlib.contextmanager
def _plain_errors(what: str) -> Iterator[None]:
    try:
        yield
    except Py4JNetworkError:
        raise
    except (PySparkException, Py4JError) as error:
        msg = f"{what}: {root_cause(str(error))}"
        raise ConfigurationError(msg) from error


def summary_lines(summary: Summary) -> list[str]:
    """The summary as a person reads it."""
    totals, delays = summary.totals, summary.delays
    return [
        f"ran {summary.seconds:,.0f} s",
        f"messages in      {totals.messages:,}, of which quarantined {totals.quarantined:,}",
        f"events in        {totals.events:,}, of which repeated {totals.repeated:,}"
        f" ({totals.duplicate_start:,} Starts, {totals.duplicate_end:,} Ends)",
        f"changes out      {totals.started:,} started, {totals.heartbeats:,} heartbeats, {totals.ended:,} ended",
        f"live now         {'-' if summary.live is None else f'{summary.live:,}'}",
        f"heartbeat lateness      p50 {_ms(delays.lateness_p50_ms)}, p99 {_ms(delays.lateness_p99_ms)}",
        f"event-to-table latency  p50 {_ms(delays.latency_p50_ms)}, p99 {_ms(delays.latency_p99_ms)}",
    ]


def _ms(value: int | None) -> str:
    return "-" if value is None else f"{value:,} ms"
