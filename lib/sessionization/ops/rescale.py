"""Spread the operator's state over another number of partitions, with Spark's repartitioning of a stopped query."""

import contextlib
import threading
from typing import NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization import private_spark
from sessionization.clock import wall_clock_ms
from sessionization.errors import ConfigurationError, StateError
from sessionization.hadoop_path import AnyPath, HadoopPath
from sessionization.ops.maintenance_settings import RescaleSettings
from sessionization.ops.state_reader import StateReader, readable_path
from sessionization.say import Say
from sessionization.spark.checkpoint.folder import SESSIONIZE, read_checkpoint
from sessionization.spark.checkpoint.folder_lock import lock_folder
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.engine.session import job_session, session_for_uris
from sessionization.spark.tables.lease import STREAM_LEASE, hold_lease
from sessionization.spark.tables.lease_table import StoredLease, no_lease
from sessionization.spark.tables.location import TableLocation


class Fingerprint(NamedTuple):
    """Summary of a state: how many entries and timers, and sums of their hashes.

    It leaves out what lies in another partition than its grouping key's, where the stream would not find it.
    """

    entries: int
    entries_hash: int
    timers: int
    timers_hash: int


def fingerprint(state: StateReader, partitions: int | None) -> Fingerprint:
    is_in_place = F.col("partition") == F.pmod(F.hash("grouping_key"), F.lit(partitions))
    placed = (rows.where(is_in_place).drop("partition") for rows in (state.entries(), state.timers()))
    entries, timers = map(_count_and_hash, placed)
    return Fingerprint(*entries, *timers)


def rescale(settings: RescaleSettings, say: Say, stop: threading.Event | None = None) -> None:
    """Repartition the state, and compare it with the state before.

    Raises `CheckpointError` where the job runs; `StateError` where the state is different afterwards, and where Spark
    does not repartition it, as after a micro-batch that is not committed; and `ConfigurationError` where there is no
    state, this engine cannot repartition it, or Spark has another default storage.
    """
    partitions = settings.partitions
    with contextlib.ExitStack() as stack:
        stack.enter_context(session_for_uris(settings, say))
        checkpoint = read_checkpoint(settings.state.checkpoints)
        is_exclusive = stack.enter_context(lock_folder(checkpoint.folder, say, stop))
        location, check_lease = TableLocation.parse(checkpoint.pinned.tables), no_lease
        if not is_exclusive and not isinstance(location.warehouse, HadoopPath):  # a URI has no lock
            is_exclusive = stack.enter_context(location.lock_for_stream(say, stop))
        spark = stack.enter_context(job_session(settings=settings))
        if not is_exclusive:
            stored = StoredLease(spark, location, STREAM_LEASE)
            lease = stack.enter_context(hold_lease(stored, "rescale_state", say, stop or threading.Event()))
            check_lease = lease.check
        state = StateReader(spark, checkpoint.folder).at_newest()
        former = state.started_batch().partitions
        if former == partitions:
            say(f"the state has {partitions} partitions already: there is nothing to do")
            return
        before = fingerprint(state, former)
        say(f"{before.entries:,} entries and {before.timers:,} timers in {former} partitions")
        began_ms = wall_clock_ms()
        check_lease()
        _repartition(spark, checkpoint.folder, partitions)
        say(f"repartitioned in {(wall_clock_ms() - began_ms) / 1000:,.1f} s")
        after = fingerprint(state.at_newest(), partitions)
        if after != before:
            msg = (
                f"the state is not what it was ({after}, before {before}): "
                f"put the copy of --checkpoints {checkpoint.folder} back"
            )
            raise StateError(msg)
        say(f"{after.entries:,} entries and {after.timers:,} timers in {partitions} partitions, the same as before")


def _repartition(spark: SparkSession, folder: AnyPath, partitions: int) -> None:
    try:
        manager = private_spark.checkpoint_manager(spark)
    except (AttributeError, Py4JError) as error:
        msg = (
            f"this Spark ({spark.version}) cannot repartition a state, as open-source Spark 4.2 can: begin a new "
            "checkpoint with --from-sessions and another spark.sql.shuffle.partitions (docs/state.md)"
        )
        raise ConfigurationError(msg) from error
    try:
        manager.repartition(readable_path(str(folder / SESSIONIZE)), partitions)
    except (PySparkException, Py4JError) as error:
        msg = (
            f"the state is not repartitioned ({root_cause(str(error))}): fix the cause, and run this again; where it "
            "was cut off, give the same number, and the stream cannot start before that"
        )
        raise StateError(msg) from error


def _count_and_hash(rows: DataFrame) -> tuple[int, int]:
    """The number of rows, and a number that depends on every row and not on their order."""
    hashed = F.sum(F.xxhash64(*rows.columns).cast("decimal(38, 0)"))
    totals = rows.agg(F.count("*"), F.coalesce(hashed, F.lit(0))).first()
    assert totals is not None
    return int(totals[0]), int(totals[1])
