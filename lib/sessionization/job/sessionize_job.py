"""Run the job: open the checkpoint, start the queries, watch them, stop them gracefully, and sum up the run."""

import contextlib
import threading
from collections.abc import Iterator, Sequence

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from sessionization.clock import wall_clock_ms
from sessionization.errors import StreamError
from sessionization.job.job_input import take_input
from sessionization.job.preparation import (
    check_folders,
    open_job_checkpoint,
    plain_errors,
    prepare,
)
from sessionization.job.queries import Queries
from sessionization.job.shutdown import stop_queries
from sessionization.job.stop_file import stop_on_file
from sessionization.job.summary import ClockCheck, RunningTotals, progress_line, summary_lines
from sessionization.ml.runs import track_in_mlflow
from sessionization.say import Say
from sessionization.settings.metrics_address import require_metrics_package
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.folder import SESSIONIZE, engine_log
from sessionization.spark.checkpoint.folder_lock import lock_folder
from sessionization.spark.engine.error_text import explain_engine_death, remedy_for, root_cause
from sessionization.spark.engine.session import describe_log, job_session, session_for_uris
from sessionization.spark.input.kafka_source import remedy_for_topics
from sessionization.spark.input.source_tables import remedy_for_tables
from sessionization.spark.job_context import JobContext
from sessionization.spark.output import real_time
from sessionization.spark.output.progress import BatchListener
from sessionization.spark.output.progress_log import ProgressLog
from sessionization.spark.tables.lease import STREAM_LEASE, hold_lease
from sessionization.spark.tables.lease_table import StoredLease, no_lease
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSIONS
from sessionization.stop_signals import stop_after, stop_on_signals


def run(
    settings: SessionizeSettings,
    stop: threading.Event,
    say: Say,
    listeners: Sequence[BatchListener] = (),
    say_progress: Say | None = None,
) -> list[str]:
    """Run until `stop` is set or `settings.run_for_ms` is over; a restart with the checkpoint continues from there.

    `say` prints a line for a person. `say_progress` prints the progress line of every few seconds; without it, `say`
    does. `listeners` are called after every micro-batch, on the queries' own threads.

    Returns the lines of the summary. Raises `ConfigurationError`, `CheckpointError` or `StoppedError` before it starts
    a query, and `StreamError` where a query ended on its own.
    """
    if settings.pace.mode == "real-time":
        real_time.check_runtime()
    location = TableLocation.of(settings.tables)
    require_metrics_package(settings.monitoring.metrics_port)
    log_file = engine_log(settings.state.checkpoints)
    with contextlib.ExitStack() as stack:
        with plain_errors("Spark cannot be started"):
            log_place = stack.enter_context(session_for_uris(settings, say)) or describe_log(log_file)
        stack.enter_context(explain_engine_death(log_place))
        check_folders(settings)
        stack.enter_context(lock_folder(settings.state.checkpoints, say, stop))
        is_exclusive = stack.enter_context(location.lock_for_stream(say, stop))
        # With a lock, the checkpoint is opened here: a wrong setting is refused before Spark has started. A lease is a
        # row of a table, so Spark must have started first.
        checkpoint = open_job_checkpoint(settings, location, say) if is_exclusive else None
        with plain_errors(f"Spark cannot be started (see {log_place})"):
            spark = stack.enter_context(job_session(log_file, settings=settings))
        check_lease = no_lease
        if not is_exclusive:
            stored = StoredLease(spark, location, STREAM_LEASE)
            check_lease = stack.enter_context(hold_lease(stored, "sessionize", say, stop)).check
        checkpoint = checkpoint or open_job_checkpoint(settings, location, say)
        track = stack.enter_context(track_in_mlflow(settings, location, checkpoint.id, say))
        context = JobContext(spark, settings, checkpoint, location, say, log_place=log_place, check_lease=check_lease)
        return _run(context, stop, (track, *listeners), say_progress or say)


def run_and_print_summary(settings: SessionizeSettings, say: Say, say_progress: Say | None = None) -> None:
    """Run until SIGTERM or Ctrl-C, and print progress and summary; the scheduled job and its notebook call this.

    `say_progress` is as in `run`.
    """
    with stop_on_signals() as stop:
        summary = run(settings, stop, say, say_progress=say_progress)
    for line in summary:
        say(line)


def _run(context: JobContext, stop: threading.Event, others: Sequence[BatchListener], say_progress: Say) -> list[str]:
    stop_on_file(context.checkpoint.folder, stop, context.say)
    context, progress_log, initial_state = prepare(context, stop)
    context.say(f"state partitions: {context.state_partitions}; later only rescale_state changes their number")
    began_ms = wall_clock_ms()
    clock = ClockCheck(context.settings.rules.heartbeat_ms, context.say)
    clock.check(context.checkpoint.newest_clock_ms())
    totals = RunningTotals()
    listeners: list[BatchListener] = [totals.add]
    with _report_batches(context, progress_log, listeners):
        listeners.extend(others)
        with take_input(context) as check_input:
            queries = Queries(context, progress_log.store, listeners, initial_state)
            with plain_errors("the queries cannot be started"):
                queries.start(stop)

            def report() -> None:
                counted, last = totals.snapshot()
                say_progress(progress_line(counted, last))
                clock.check(last[SESSIONIZE].processed_ms if SESSIONIZE in last else None)
                check_input()

            try:
                with stop_after(stop, context.settings.run_for_ms):
                    queries.watch(stop, report)
                check_input()
            finally:
                queries.end_rests()
                causes = stop_queries(
                    queries.by_name, context.checkpoint.folder, context.say, is_real_time=context.is_real_time
                )
    if causes:
        settings = context.settings
        remedy = (
            remedy_for_tables(settings, causes)
            or remedy_for_topics(context.spark, settings, settings.topics, causes)
            or remedy_for(causes)
        )
        msg = f"{'; '.join(causes)}: {remedy} (details: {context.log_place})"
        raise StreamError(msg)
    seconds, live = (wall_clock_ms() - began_ms) / 1000, _count_live(context)
    return summary_lines(seconds, totals.snapshot()[0], live)


@contextlib.contextmanager
def _report_batches(context: JobContext, progress_log: ProgressLog, listeners: list[BatchListener]) -> Iterator[None]:
    """Append rows of `stream_progress` in the background, and add the metrics to `listeners`, while the body runs."""
    settings = context.settings
    with contextlib.ExitStack() as stack:
        stack.enter_context(progress_log.append_in_background(context.say))
        if context.is_real_time:
            stack.enter_context(
                real_time.report_engine_batches(context.spark, progress_log.store, listeners, context.checkpoint.layout)
            )
        if (port := settings.monitoring.metrics_port) is not None:
            from sessionization.job.metrics import Metrics, serve_metrics  # needs the extra

            metrics = Metrics(settings.rules.heartbeat_ms)
            serving = serve_metrics(context.spark, metrics, settings.monitoring.metrics_host, port, context.say)
            listeners.extend(stack.enter_context(serving))
        yield


def _count_live(context: JobContext) -> int | None:
    try:
        return context.location.read(context.spark.read, SESSIONS).where("status = 'live'").count()
    except (PySparkException, Py4JError) as error:  # the tables are complete without the count
        context.say(f"the summary is incomplete, the tables are not: {root_cause(str(error))}")
        return None
