"""Write the changes that `--sink kafka` sent to `--output-topic` into `session_changes`, each change once."""

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from sessionization.errors import StreamError
from sessionization.hadoop_path import AnyPath
from sessionization.job.shutdown import stop_queries
from sessionization.job.stop_file import stop_on_file
from sessionization.ops.maintenance_settings import LandChangesSettings
from sessionization.say import Say
from sessionization.spark.checkpoint.folder import engine_log
from sessionization.spark.checkpoint.folder_lock import lock_folder
from sessionization.spark.engine.error_text import explain_engine_death, root_cause
from sessionization.spark.engine.session import describe_log, job_session, session_for_uris
from sessionization.spark.input.kafka_source import check_topics, client_options
from sessionization.spark.input.topic_admin import refuse_compacted_topics
from sessionization.spark.output import changes_topic
from sessionization.spark.tables.compaction import CHANGES_TARGETS, CompactionTarget, Turns
from sessionization.spark.tables.lease import LANDING_LEASE, MAINTENANCE_LEASE, hold_lease
from sessionization.spark.tables.lease_table import StoredLease, no_lease
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES
from sessionization.stop_signals import stop_after

_log = logging.getLogger(__name__)

_QUERY = "land_changes"

MAX_CHANGES_PER_MICRO_BATCH = 500_000
"""Bound on the changes that one micro-batch takes: they are held in memory, and written as one file."""


def land_changes(settings: LandChangesSettings, say: Say, stop: threading.Event) -> None:
    """Run until `stop` is set or `settings.run_for_ms` is over; a restart with the checkpoint continues from there.

    Raises `ConfigurationError` or `CheckpointError` before anything is started, and `StreamError` when the query ended
    on its own.
    """
    log, location = engine_log(settings.checkpoints), TableLocation.of(settings.tables)
    with contextlib.ExitStack() as stack:
        log_place = stack.enter_context(session_for_uris(settings, say)) or describe_log(log)
        location.require_folder(SESSION_CHANGES)  # the lock would not cover a table that a sessionize job creates later
        stack.enter_context(lock_folder(settings.checkpoints, say, stop))
        is_exclusive = stack.enter_context(location.lock_for_maintenance(say, stop))
        stack.enter_context(explain_engine_death(log_place))
        spark = stack.enter_context(job_session(log, settings=settings))
        location.require(spark, [SESSION_CHANGES])
        check_lease = no_lease
        if not is_exclusive:
            name = LANDING_LEASE if location.warehouse is None else MAINTENANCE_LEASE
            stored = StoredLease(spark, location, name)
            check_lease = stack.enter_context(hold_lease(stored, _QUERY, say, stop)).check
        stop_on_file(settings.checkpoints, stop, say)
        check_topics(spark, settings, (settings.sink.output_topic,))
        refuse_compacted_topics(spark, settings, (settings.sink.output_topic,), say, is_new=False)
        options = client_options(spark, settings)
        landing = Landing(
            location, options, settings.sink.output_topic, settings.checkpoints, settings.trigger_ms, check_lease
        )
        query = landing.start(spark)
        say(f"from {settings.sink.output_topic} into {SESSION_CHANGES.name} in {location}")
        with stop_after(stop, settings.run_for_ms):
            while query.isActive and not stop.wait(0.2):
                pass
        # Between two micro-batches: a repeated one would write erased rows again.
        causes = stop_queries({_QUERY: query}, settings.checkpoints, say)
    if causes:
        msg = f"{causes[0]}; nothing is lost: fix the cause, start again with the same options"
        raise StreamError(msg)


@dataclass(frozen=True, slots=True)
class Landing:
    """The query that appends the topic's changes to `session_changes`; `options` are options of the Kafka client."""

    location: TableLocation
    options: Mapping[str, str]
    output_topic: str
    checkpoints: AnyPath
    trigger_ms: int
    check_lease: Callable[[], None] = no_lease
    turns: Turns[CompactionTarget] = field(default_factory=partial(Turns, CHANGES_TARGETS))

    def start(self, spark: SparkSession) -> StreamingQuery:
        source = {
            "subscribe": self.output_topic,
            "startingOffsets": "earliest",
            "failOnDataLoss": "true",
            "maxOffsetsPerTrigger": str(MAX_CHANGES_PER_MICRO_BATCH),
        }
        records = spark.readStream.format("kafka").options(**self.options, **source).load()
        return (
            records.writeStream.queryName(_QUERY)
            .foreachBatch(self._append)
            .option("checkpointLocation", str(self.checkpoints / _QUERY))
            .trigger(processingTime=f"{self.trigger_ms} milliseconds")
            .start()
        )

    def _append(self, records: DataFrame, _batch_id: int) -> None:
        # A start of `sessionize` may have added a column meanwhile.
        schema = self.location.read(records.sparkSession.read, SESSION_CHANGES).schema
        changes = changes_topic.from_records(records, schema)
        append_missing_changes(self.location, self.output_topic, changes, self.check_lease)
        if target := self.turns.next_if_due():
            self.check_lease()
            target.compact(changes.sparkSession, self.location)


def append_missing_changes(
    location: TableLocation, output_topic: str, changes: DataFrame, check_lease: Callable[[], None] = no_lease
) -> None:
    """Append the topic's changes that the table lacks; a second call with the same changes appends nothing.

    So the stream may send a change several times, and this micro-batch may be repeated.
    """
    changes = changes.persist()
    try:
        foreign_count = changes.where(~changes_topic.is_change()).count()
        if foreign_count:
            _log.warning("%s records of %s are no changes, and left out: who sends them?", foreign_count, output_topic)
        table = location.read(changes.sparkSession.read, SESSION_CHANGES)
        missing = changes_topic.changes_not_in_table(table, changes.where(changes_topic.is_change())).persist()
        try:
            if not missing.isEmpty():
                check_lease()
                location.append(missing.coalesce(1), SESSION_CHANGES)
        finally:
            missing.unpersist()
    except Exception as error:  # noqa: BLE001 - the message of any error must be short
        raise StreamError(root_cause(str(error))) from None
    finally:
        changes.unpersist()
