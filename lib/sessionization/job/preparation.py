"""The preparation before the first query: checks and opens folders, topics, tables and the checkpoint."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from sessionization.errors import ConfigurationError, StoppedError
from sessionization.files import refuse_unreadable, refuse_unwritable
from sessionization.hadoop_path import AnyPath
from sessionization.job.job_input import name_interrupted_files
from sessionization.say import Say
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.settings.table_location_settings import FolderTables
from sessionization.spark.checkpoint.folder import Checkpoint
from sessionization.spark.checkpoint.opening import open_checkpoint
from sessionization.spark.checkpoint.pinned_settings import PinnedSettings
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.input.avro_messages import check_registry
from sessionization.spark.input.kafka_source import check_topics
from sessionization.spark.input.source_tables import check_source_tables
from sessionization.spark.input.topic_admin import refuse_compacted_topics
from sessionization.spark.job_context import JobContext
from sessionization.spark.output.progress_log import ProgressLog
from sessionization.spark.output.sinks import first_table_by_query, newest_appended_batch
from sessionization.spark.tables import views
from sessionization.spark.tables.creation import (
    create_tables,
    fit_to_events,
    refuse_missing_tables,
    store_heartbeat,
    take_over,
)
from sessionization.spark.tables.lease import MAINTENANCE_LEASE, hold_lease
from sessionization.spark.tables.lease_table import StoredLease, no_lease
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import REQUIRED_TABLES, TABLES
from sessionization.spark.warm_start.initial_state import InitialState, warm_start


def check_folders(settings: SessionizeSettings) -> None:
    """Raises `ConfigurationError` where `--input` cannot be read or `--warehouse` cannot be written."""
    if settings.input_folder is not None:
        refuse_unreadable_input(settings.input_folder, settings.event_map.stream_names)
    if isinstance(settings.tables, FolderTables):
        warehouse = settings.tables.warehouse
        try:
            warehouse.mkdir(parents=True, exist_ok=True)
            refuse_unwritable(warehouse)
        except OSError as error:
            msg = f"--warehouse {warehouse} cannot be written ({error.strerror}): give a writable folder"
            raise ConfigurationError(msg) from error


def refuse_unreadable_input(folder: AnyPath, streams: Sequence[str]) -> None:
    """Raises `ConfigurationError` where the folder of `--input` cannot be listed."""
    try:
        refuse_unreadable(folder)
    except OSError as error:
        msg = (
            f"--input {folder} cannot be read ({error.strerror}): "
            f"create it, or name the folder that holds {' and '.join(streams)}"
        )
        raise ConfigurationError(msg) from error


def open_job_checkpoint(settings: SessionizeSettings, location: TableLocation, say: Say) -> Checkpoint:
    """Open the checkpoint of `settings`, or create it; raises the errors of `open_checkpoint`."""
    checkpoint = open_checkpoint(
        settings.state.checkpoints,
        PinnedSettings.of(settings, str(location)),
        settings.rules.of_sessions,
        warm=settings.state.from_sessions,
    ).with_events(settings.event_map, say)
    say(f"starting; tables in {location}, checkpoints in {checkpoint.folder}, state {checkpoint.layout}")
    if settings.input_folder is not None:
        name_interrupted_files(checkpoint.folder, say)
    return checkpoint


def prepare(context: JobContext, stop: threading.Event) -> tuple[JobContext, ProgressLog, InitialState]:
    """Check topics with the schema registry, or source tables, and open the tables.

    Returns the context with the updated checkpoint.

    Raises `ConfigurationError`, `CheckpointError`, or `StoppedError` where `stop` is set meanwhile.
    """
    settings, location = context.settings, context.location
    if settings.source.type == "kafka":
        with unless_stopped(stop):
            check_topics(context.spark, settings, settings.topics)
            check_registry(context.spark, settings.event_map)
            is_new = not context.checkpoint.is_used
            refuse_compacted_topics(context.spark, settings, settings.topics, context.say, is_new=is_new)
    if settings.source.type == "table":
        with unless_stopped(stop):
            check_source_tables(context.spark, settings)
    # A landing that writes to folders during the take-over might replace one of its commits.
    with contextlib.ExitStack() as stack:
        stack.enter_context(plain_errors(f"the tables in {location} cannot be opened or created"))
        check_maintenance_lease = no_lease
        if context.checkpoint.is_taking_over:
            is_locked = stack.enter_context(location.lock_for_maintenance(context.say, stop))
            if location.warehouse is not None and not is_locked:
                stored = StoredLease(context.spark, location, MAINTENANCE_LEASE)
                lease = stack.enter_context(hold_lease(stored, "sessionize", context.say, stop))
                check_maintenance_lease = lease.check
        stack.enter_context(unless_stopped(stop))
        return _open_tables(context, check_maintenance_lease)


def _open_tables(
    context: JobContext, check_maintenance_lease: Callable[[], None]
) -> tuple[JobContext, ProgressLog, InitialState]:
    """Create and check the tables, or take them over.

    The take-over comes last, so that a refused start changes nothing.
    """
    spark, checkpoint, location = context.spark, context.checkpoint, context.location
    session_id_type, archives = checkpoint.layout.session_id_type, context.settings.archives
    tables = TABLES if archives else REQUIRED_TABLES
    if checkpoint.is_taking_over:
        refuse_missing_tables(spark, location, session_id_type, tables)
        checkpoint = checkpoint.with_layout_of(context.settings.event_map, location.labels(spark))
        context = replace(context, checkpoint=checkpoint)
    else:
        create_tables(
            spark,
            location,
            owner=checkpoint.id,
            session_id_type=None if checkpoint.is_used else session_id_type,
            tables=tables,
        )
        checkpoint.restore_layout_file()
    with ThreadPoolExecutor() as pool:
        opening = pool.submit(ProgressLog, context)
        appended = {
            query: pool.submit(newest_appended_batch, location, spark, table, checkpoint.writer_id(query))
            for query, table in first_table_by_query(archives=archives).items()
        }
    progress_log = opening.result()
    checkpoint.refuse_if_older_than(progress_log.newest)
    checkpoint.refuse_if_older_than({query: batch.result() for query, batch in appended.items()})
    with plain_errors("--from-sessions: the sessions to begin with cannot be read"):
        initial_state = warm_start(context)
    if checkpoint.is_taking_over:
        context.check_lease()
        check_maintenance_lease()
        checkpoint.write()  # it is warm from now on
        take_over(spark, location, checkpoint.id, tables)
        create_tables(spark, location, owner=checkpoint.id, session_id_type=None, tables=tables)
        checkpoint.restore_layout_file()
    fit_to_events(
        spark,
        location,
        context.settings.event_map,
        checkpoint.layout.labels,
        has_activity=checkpoint.in_force.has_activity,
    )
    store_heartbeat(spark, location, context.settings.rules.heartbeat_ms)
    if location.warehouse is None:
        views.create_views(spark, location)
    return replace(context, checkpoint=checkpoint.with_sink(context.settings.sink.type)), progress_log, initial_state


@contextlib.contextmanager
def unless_stopped(stop: threading.Event) -> Iterator[None]:
    """Raises `StoppedError`, instead of any other error, where `stop` is set meanwhile."""
    try:
        yield
    finally:
        if stop.is_set():
            msg = "stopped before the queries were started"
            raise StoppedError(msg)


@contextlib.contextmanager
def plain_errors(failure: str) -> Iterator[None]:
    """Raises `ConfigurationError` with one line for an error of the engine, unless the engine itself has died."""
    try:
        yield
    except Py4JNetworkError:
        raise
    except (PySparkException, Py4JError) as error:
        msg = f"{failure}: {root_cause(str(error))}"
        raise ConfigurationError(msg) from error
