"""Print a summary of the operator's state, and check its invariants."""

import contextlib

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from sessionization.clock import utc
from sessionization.errors import StateError
from sessionization.ops.invariants import Invariant, StateContext, count_violations
from sessionization.ops.maintenance_settings import InspectSettings
from sessionization.ops.state_reader import StateReader
from sessionization.say import Say
from sessionization.spark.checkpoint.folder import SESSIONIZE, Checkpoint, read_checkpoint
from sessionization.spark.checkpoint.spark_logs import read_started_batch
from sessionization.spark.engine.job_conf import TIME_ZONE_CONF
from sessionization.spark.engine.session import job_session, session_for_uris

_MOST_ENTRIES = 1_000


def inspect_state(settings: InspectSettings, say: Say) -> None:
    """Print the state of a checkpoint, the tables on stdout, and check its invariants.

    Raises `CheckpointError` or `ConfigurationError` where there is no state to read, and `StateError` at the end where
    an invariant does not hold.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(session_for_uris(settings, say))
        checkpoint = read_checkpoint(settings.state.checkpoints)
        spark = stack.enter_context(job_session(depends_on=TIME_ZONE_CONF))
        state = StateReader(spark, checkpoint.folder).at_newest()
        context = state_context(checkpoint, state)
        say(
            f"state after micro-batch {state.batch_id} of {utc(context.clock_ms):%Y-%m-%d %H:%M:%S} UTC, "
            f"{context.layout}, in {context.partitions} partitions"
        )
        state.by_partition().show(context.partitions, truncate=False)
        if settings.fullest:
            say("the devices with the most entries:")
            state.largest_devices(settings.fullest).show(settings.fullest, truncate=False)
        if settings.device is not None:
            say(f"device {settings.device}:")
            state.of_device(settings.device).show(_MOST_ENTRIES, truncate=False)
        invariants = check_state(state, context)
    if violations := [invariant for invariant in invariants if invariant.broken]:
        msg = (
            f"{len(violations)} of {len(invariants)} invariants do not hold ({'; '.join(map(str, violations))}): "
            "keep a copy of the checkpoint, and see docs/state.md"
        )
        raise StateError(msg)
    say(f"{len(invariants)} invariants hold")


def state_context(checkpoint: Checkpoint, state: StateReader) -> StateContext:
    """The context for checks of the state after a micro-batch; raises `CheckpointError` where a log is damaged."""
    assert state.batch_id is not None
    started_batch = read_started_batch(checkpoint.folder / SESSIONIZE, state.batch_id)
    assert started_batch.partitions is not None  # a query with state has it
    return StateContext(started_batch.clock_ms, checkpoint.in_force, checkpoint.layout, started_batch.partitions)


def check_state(state: StateReader, context: StateContext) -> list[Invariant]:
    """All invariants and how often the state breaks each; it is read once and cached during the checks."""
    entries, timers = state.entries(), state.timers()
    with contextlib.ExitStack() as stack:
        for frame in (entries, timers):
            with contextlib.suppress(PySparkException):  # serverless compute refuses it, and reads them each time
                stack.callback(frame.persist().unpersist)
        return count_violations(entries, timers, context)


def invariant_frame(state: StateReader) -> DataFrame:
    """All invariants and how often the state breaks each, for notebooks.

    Returns:
        `invariant`, `broken` (how many entries, devices or keys break it; 0 in a correct state) and `example`.

    Raises as `inspect_state` does, but nothing where an invariant does not hold.
    """
    state = state.at_newest()
    context = state_context(read_checkpoint(state.checkpoints), state)
    rows = [(one.name, one.broken, one.example) for one in check_state(state, context)]
    return state.spark.createDataFrame(rows, "invariant string, broken bigint, example string")
