"""Checks of the tables that the sessionize job needs: its rights, its transactions, its lease, and their checkpoint."""

import threading
import time
from dataclasses import replace

from pyspark.sql import SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.files import remove_tree
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.folder import Checkpoint, find_checkpoint
from sessionization.spark.checkpoint.pinned_settings import PinnedSettings
from sessionization.spark.output.sinks import FIRST_TABLE_BY_QUERY
from sessionization.spark.tables.batch_writer import newest_appended_batch
from sessionization.spark.tables.creation import create_table, lost_table, refuse_missing_tables
from sessionization.spark.tables.lease import hold_lease
from sessionization.spark.tables.lease_table import Holder, StoredLease
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import JOB_LEASE, TABLES, Table

NAME = "sessionization_preflight"
"""The name of the trial table and folder."""
_OTHER_PLACES = "give the --checkpoints of these tables, another location for new ones, or once --from-sessions"
_TABLE = Table(NAME, statement=f"CREATE TABLE ${{schema}}.{NAME} (number bigint) USING delta")


def check_tables(spark: SparkSession, location: TableLocation) -> str:
    """Create a table, append the same micro-batch twice, and drop the table.

    Raises `ConfigurationError` where Delta took both, `OSError`, and the errors of Spark.
    """
    began_s = time.monotonic()
    if location.warehouse is not None:
        location.warehouse.mkdir(parents=True, exist_ok=True)
    _drop(spark, location)
    try:
        create_table(spark, location, _TABLE, owner=NAME)
        for _ in range(2):
            location.append(spark.range(1).toDF("number"), _TABLE, txnAppId=NAME, txnVersion="0")
        count = location.read(spark.read, _TABLE).count()
    finally:
        _drop(spark, location)
    if count != 1:
        msg = f"a micro-batch that was appended twice left {count} rows: this Delta ignores txnAppId; use a newer one"
        raise ConfigurationError(msg)
    return f"created, appended to twice, read and dropped in {time.monotonic() - began_s:.0f} s in {location}"


def check_lease(spark: SparkSession, location: TableLocation) -> str:
    """Take a lease of this check's own, see another run refused, and give it up.

    Raises `ConfigurationError` where two runs take it, and the errors of `hold_lease`.
    """
    began_s = time.monotonic()
    stored, other = StoredLease(spark, location, NAME), Holder.this_run(spark, "preflight")
    with hold_lease(stored, "preflight", lambda _line: None, threading.Event()) as lease:
        if stored.take(replace(other, since_ms=0, until_ms=wall_clock_ms()), 0, None):
            msg = f"two runs took one lease in {location}: this storage lets a commit replace another; use another one"
            raise ConfigurationError(msg)
        lease.check()
    return f"a second run is refused; taken and given up in {time.monotonic() - began_s:.0f} s in {JOB_LEASE.name}"


def check_checkpoint(spark: SparkSession, settings: SessionizeSettings, location: TableLocation) -> str:
    """Compare an existing checkpoint with the options, and with the tables that exist; nothing is changed.

    As the start of the job would, raises `CheckpointError` where the checkpoint has other settings, cannot be read,
    does not own a table, misses a table that it has written, or is an older copy, and `ConfigurationError` where a
    table to take over is missing.
    """
    existing = [table for table in TABLES if location.exists(spark, table)]
    checkpoint = find_checkpoint(
        settings.state.checkpoints,
        PinnedSettings.of(settings, str(location)),
        retain_device_groups=settings.state.expected_devices is not None,
    )
    if checkpoint is not None:
        _refuse_older_copy(spark, checkpoint, location, existing)
    is_new = checkpoint is None or not checkpoint.is_used
    is_taking_over = checkpoint is not None and checkpoint.is_taking_over
    if is_taking_over or (settings.state.from_sessions and is_new):
        refuse_missing_tables(spark, location)
        return "its take-over of the tables goes on" if is_taking_over else "new; it takes over the tables"
    if checkpoint is None:
        if existing:
            msg = f"it is new, but {location} holds {', '.join(table.name for table in existing)}: {_OTHER_PLACES}"
            raise CheckpointError(msg)
        return "new, as the tables are"
    for table in TABLES:
        if table in existing:
            location.check_owner(spark, table, checkpoint.id, _OTHER_PLACES)
        elif checkpoint.is_used:
            raise lost_table(location, table)
    newest = max(checkpoint.newest_started_batches().values())
    use = f"its newest micro-batch is {newest}" if checkpoint.is_used else "it has not been used yet"
    return f"it fits the options, and {use}; it owns {len(existing)} of {len(TABLES)} tables"


def _refuse_older_copy(
    spark: SparkSession, checkpoint: Checkpoint, location: TableLocation, existing: list[Table]
) -> None:
    """Raises `CheckpointError` where the tables hold later micro-batches than the checkpoint."""
    checkpoint.refuse_if_older_than(
        {
            query: newest_appended_batch(location, spark, table, checkpoint.writer_id(query))
            for query, table in FIRST_TABLE_BY_QUERY.items()
            if table in existing
        }
    )


def _drop(spark: SparkSession, location: TableLocation) -> None:
    if location.warehouse is not None:
        remove_tree(location.folder_of(_TABLE.name))
    else:
        spark.sql(f"DROP TABLE IF EXISTS {location.sql_name(_TABLE.name)}")
