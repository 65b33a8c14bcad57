"""Spread the operator's state over another number of partitions, with Spark's own repartitioning of a stopped query."""

import threading
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.clock import wall_clock_ms
from sessionization.errors import CheckpointError, ConfigurationError, StateError
from sessionization.ops.inspect_state import check_state, state_context
from sessionization.ops.maintenance_settings import RescaleSettings
from sessionization.ops.state_reader import StateReader, plain
from sessionization.say import Say
from sessionization.spark.checkpoint.folder import SESSIONIZE, Checkpoint, read_checkpoint
from sessionization.spark.checkpoint.folder_lock import lock_folder
from sessionization.spark.checkpoint.spark_logs import (
    newest_committed_batch,
    newest_started_batch,
    read_started_batch,
)
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.engine.session import job_session


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a state holds, wherever it lies: how many entries and timers, and a sum over the hashes of each."""

    entries: int
    entries_hash: int
    timers: int
    timers_hash: int

    @classmethod
    def of(cls, state: StateReader) -> "Fingerprint":
        return cls(*_counted(state.entries().drop("partition")), *_counted(state.timers().drop("partition")))


def rescale(settings: RescaleSettings, say: Say, stop: threading.Event | None = None) -> None:
    """Repartition the state, and compare it with what it was.

    Raises `CheckpointError` where the job runs, or where its last micro-batch is not done, `StateError` where the state
    breaks an invariant (before anything is touched), or is not afterwards what it was before, and `ConfigurationError` where
    there is no state, or this engine cannot do it.
    """
    checkpoint = read_checkpoint(settings.checkpoints)
    with lock_folder(checkpoint.folder, say, stop), job_session() as spark:
        _refuse_unfinished(checkpoint.folder, settings.partitions)
        state = StateReader(spark, checkpoint.folder).at_newest()
        context = state_context(checkpoint, state)
        if context.partitions == settings.partitions:
            say(f"the state has {settings.partitions} partitions already: there is nothing to do")
            return
        before = Fingerprint.of(state)
        say(f"{before.entries:,} entries and {before.timers:,} timers in {context.partitions} partitions")
        _refuse_broken(state, checkpoint, "before anything was touched")
        began_ms = wall_clock_ms()
        _repartition(spark, checkpoint.folder, settings.partitions)
        say(f"repartitioned in {(wall_clock_ms() - began_ms) / 1000:,.1f} s")
        state = state.at_newest()
        after = Fingerprint.of(state)
        if after != before:
            msg = f"the state is not what it was ({after}, before {before}): put the copy of --checkpoints {checkpoint.folder} back"
            raise StateError(msg)
        _refuse_broken(state, checkpoint, "afterwards: put the copy back")
        say(
            f"{after.entries:,} entries and {after.timers:,} timers in {settings.partitions} partitions, the same as before"
        )


def _refuse_unfinished(folder: Path, partitions: int) -> None:
    """A micro-batch that was begun may have written its rows: it must be repeated by the job, and not be passed over."""
    query = folder / SESSIONIZE
    newest, done = newest_started_batch(query), newest_committed_batch(query)
    if newest == done or done < 0:
        return
    wanted = read_started_batch(query, newest).partitions
    if newest > 0 and read_started_batch(query, newest - 1).partitions != wanted:  # a repartitioning that was cut off
        if wanted != partitions:
            msg = f"--checkpoints {folder}: a repartitioning to {wanted} partitions was cut off: finish it first, with --partitions {wanted}"
            raise CheckpointError(msg)
        return
    msg = (
        f"--checkpoints {folder}: micro-batch {newest} is begun and not done: start the job, let it run for a context, stop it "
        "gracefully (SIGTERM, or --run-for 1m), and try again"
    )
    raise CheckpointError(msg)


def _refuse_broken(state: StateReader, checkpoint: Checkpoint, when: str) -> None:
    found = check_state(state, state_context(checkpoint, state))
    if found:
        msg = f"the state breaks its invariants {when} ({'; '.join(map(str, found))}): see docs/state.md"
        raise StateError(msg)


def _repartition(spark: SparkSession, folder: Path, partitions: int) -> None:
    try:
        # Not public yet: Spark shows it to whoever knows it.
        manager = spark._streamingCheckpointManager  # noqa: SLF001
    except (AttributeError, Py4JError) as error:
        msg = f"Spark {spark.version} cannot repartition a state: run this job with Spark 4.2"
        raise ConfigurationError(msg) from error
    try:
        manager.repartition(plain(str(folder / SESSIONIZE)), partitions)
    except (PySparkException, Py4JError) as error:
        msg = (
            f"the repartitioning was cut off ({root_cause(str(error))}): mend the cause, and run this again with "
            f"--partitions {partitions}; the stream cannot start before that"
        )
        raise StateError(msg) from error


def _counted(rows: DataFrame) -> tuple[int, int]:
    """How many rows there are, and a number that depends on each and not on their order."""
    hashed = F.sum(F.xxhash64(*rows.columns).cast("decimal(38, 0)"))
    found = rows.agg(F.count("*"), F.coalesce(hashed, F.lit(0))).first()
    assert found is not None
    return int(found[0]), int(found[1])
