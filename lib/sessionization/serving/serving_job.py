"""Keeps Postgres equal to the changes and to `sessions`: `serve_sessions` runs until it is stopped."""

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from sessionization.clock import utc, wall_clock_ms
from sessionization.durations import MINUTE_MS
from sessionization.errors import StreamError
from sessionization.job.shutdown import stop_query, wait_until_idle
from sessionization.say import Say
from sessionization.serving.postgres_login import login
from sessionization.serving.postgres_writer import PostgresWriter
from sessionization.serving.served_tables import ServedTables
from sessionization.serving.serving_metrics import Note, serve_metrics
from sessionization.serving.serving_settings import ServingSettings
from sessionization.serving.session_rows import (
    ROWS_AT_ONCE,
    flattened,
    newest_update,
    served,
    write_csv,
    write_in_parts,
)
from sessionization.settings.metrics_address import require_metrics_package
from sessionization.settings.sessionize_settings import TopicSink
from sessionization.spark.checkpoint.spark_logs import read_started_batch
from sessionization.spark.engine.error_text import explain_engine_death, root_cause
from sessionization.spark.engine.newest import newest_update_ms
from sessionization.spark.engine.session import describe_log, job_session, session_for_uris
from sessionization.spark.input.kafka_source import check_topics, client_options
from sessionization.spark.input.secrets import secret_reader
from sessionization.spark.output import changes_topic
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.rollup import fold_by_session
from sessionization.spark.tables.schemas import SESSION_CHANGES, SESSIONS
from sessionization.stop_signals import stop_after

_QUERY = "serve_sessions"
_READ_AGAIN_MS = 10 * MINUTE_MS
"""Changes are read from this long before the newest one of `sessions` on, because clocks of machines differ.

What is read again changes nothing, but for one thing: rows that were erased since then are still in Delta's old files.
"""
_COMPARE_AGAIN_MS = _READ_AGAIN_MS + MINUTE_MS
"""The second comparison comes so long after the first one, and deletes those rows again."""
_STOP_WITHIN_S = 10


def serve_sessions(settings: ServingSettings, say: Say, stop: threading.Event) -> None:
    """Run until `stop` is set or `settings.run_for_ms` is over.

    Raises `ConfigurationError` before anything is started, and `StreamError` when the query ended on its own.
    """
    require_metrics_package(settings.metrics_port)
    with contextlib.ExitStack() as stack:
        stack.enter_context(session_for_uris(settings, say))
        location = TableLocation.of(settings.tables)
        location.require_folder(SESSIONS)
        stack.enter_context(explain_engine_death(describe_log(None)))
        spark = stack.enter_context(job_session(settings=settings))
        location.require(spark, (SESSION_CHANGES, SESSIONS))
        if isinstance(settings.sink, TopicSink):
            check_topics(spark, settings, (settings.sink.output_topic,))
        labels, session_id = location.labels(spark), location.session_id_type(spark)
        tables = ServedTables(settings.postgres_schema, labels, session_id, settings.time_zone)
        connect = login(settings.postgres, settings.password, secret_reader(spark))
        writer = PostgresWriter(connect, tables, say, stop)
        stack.callback(writer.close)
        writer.open()
        note = stack.enter_context(serve_metrics(settings, lambda: writer.is_waiting, say))
        stack.enter_context(stop_after(stop, settings.run_for_ms))
        while not stop.is_set():
            Serving(spark, location, settings, labels, writer, note, say).run(stop)


@dataclass(frozen=True, slots=True)
class Serving:
    """Reads changes from where `sessions` ends, until the stop, or until Postgres is not where it was left."""

    spark: SparkSession
    location: TableLocation
    settings: ServingSettings
    labels: tuple[str, ...]
    writer: PostgresWriter
    note: Note
    say: Say

    def run(self, stop: threading.Event) -> None:
        begin = f"sessions at {wall_clock_ms()}"
        with tempfile.TemporaryDirectory(prefix="serve_sessions-") as checkpoint:
            with self._sessions() as (sessions, newest_ms):
                bound_ms = max(newest_ms or 0, wall_clock_ms() - _READ_AGAIN_MS)
                self._report_difference(self.writer.begin(sessions, bound_ms, begin))
            self.say("Postgres equals `sessions`, and follows the changes from here")
            query = self._start(Path(checkpoint), newest_ms)
            try:
                next_comparison_s = time.monotonic() + _COMPARE_AGAIN_MS / 1000
                while query.isActive and not self.writer.has_lost_position and not stop.wait(0.2):
                    if time.monotonic() >= next_comparison_s:
                        self._correct()
                        next_comparison_s = time.monotonic() + self.settings.check_every_ms / 1000
                if stop.is_set():
                    wait_until_idle(query, time.monotonic() + _STOP_WITHIN_S)
            finally:
                stop_query(query, self.say)
        if stop.is_set():
            return
        if self.writer.has_lost_position:
            self.say("Postgres is not where this run left it (restored, or written by another run): compares it anew")
            return
        cause = root_cause(str(query.exception()))
        if self.writer.position == begin:
            msg = f"{cause}; nothing is lost: fix the cause, start again"
            raise StreamError(msg)
        # As after an outage of Postgres that was longer than Delta keeps the log.
        self.say(f"the changes can no longer be read ({cause}): compares Postgres anew, and goes on")

    def _correct(self) -> None:
        """Compare in the midst of a run.

        Rows that are newer than some minutes before the newest update of `sessions` stay: its changes come from several
        tasks, or partitions of the topic, so it may still lack some of them. So does all, while it is empty.
        """
        with self._sessions() as (sessions, newest_ms):
            bound_ms = 0 if newest_ms is None else newest_ms - _READ_AGAIN_MS
            self._report_difference(self.writer.correct(sessions, bound_ms))

    def _report_difference(self, differed: int) -> None:
        if differed:
            self.say(f"{differed:,} rows of Postgres differed from `sessions`, and are put right")

    @contextlib.contextmanager
    def _sessions(self) -> Iterator[tuple[BinaryIO, int | None]]:
        """The rows of a version of `sessions` that are served, in a file, and the newest update of that version.

        A file, because Postgres then gets them at once, however often it has to be tried.
        """
        with tempfile.TemporaryFile() as file:
            try:
                version = self.location.newest_version(self.spark, SESSIONS)
                name = self.location.sql_name(SESSIONS.name)
                sessions = self.spark.sql(f"SELECT * FROM {name} VERSION AS OF {version}")
                newest_ms = newest_update_ms(sessions)
                write_in_parts(flattened(served(sessions, self.settings.keep_ended_ms, wall_clock_ms())), file)
            except Py4JNetworkError:
                raise
            except (PySparkException, Py4JError) as error:
                cause = root_cause(str(error))
                msg = f"`sessions` cannot be read ({cause}); nothing is lost: fix the cause, start again"
                raise StreamError(msg) from error
            yield file, newest_ms

    def _start(self, checkpoint: Path, since_ms: int | None) -> StreamingQuery:
        def write(batch: DataFrame, batch_id: int) -> None:
            position = str(read_started_batch(checkpoint, batch_id).sources)
            # In one partition nothing moves between tasks.
            rows = flattened(fold_by_session(batch.coalesce(1), self.labels)).toArrow()
            newest_ms, file = newest_update(rows), BytesIO()
            write_csv(rows, file)
            self.writer.write(file, position, newest_ms)
            self.note(rows.num_rows, newest_ms)

        return (
            self._changes(since_ms)
            .writeStream.queryName(_QUERY)
            .foreachBatch(write)
            .option("checkpointLocation", checkpoint.as_uri())
            .trigger(processingTime=f"{self.settings.trigger_ms} milliseconds")
            .start()
        )

    def _changes(self, since_ms: int | None) -> DataFrame:
        """Stream all changes but heartbeats, from a few minutes before an instant on."""
        reader = self.spark.readStream
        since = None if since_ms is None else since_ms - _READ_AGAIN_MS
        if not isinstance(self.settings.sink, TopicSink):
            options = {"skipChangeCommits": "true"}
            if since is not None:
                options["startingTimestamp"] = f"{utc(since):%F %T}"
            changes = self.location.read(reader.options(**options), SESSION_CHANGES)
        else:
            schema = self.location.read(self.spark.read, SESSION_CHANGES).schema
            options = client_options(self.spark, self.settings) | {
                "subscribe": self.settings.sink.output_topic,
                "maxOffsetsPerTrigger": str(ROWS_AT_ONCE),
            }
            if since is None:
                options["startingOffsets"] = "earliest"
            else:
                options |= {"startingTimestamp": str(since), "startingOffsetsByTimestampStrategy": "latest"}
            records = reader.format("kafka").options(**options).load()
            changes = changes_topic.from_records(records, schema).where(changes_topic.is_change())
        return changes.where("change != 'heartbeat'")
