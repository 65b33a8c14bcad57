"""Print a summary of the operator's state, and check its invariants."""

import contextlib
from collections.abc import Iterator

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from sessionization.clock import utc
from sessionization.errors import CheckpointError, StateError
from sessionization.ops.invariants import StateContext, Violation, find_violations, invariant_names
from sessionization.ops.maintenance_settings import InspectSettings
from sessionization.ops.state_reader import StateReader
from sessionization.say import Say
from sessionization.spark.checkpoint.folder import SESSIONIZE, Checkpoint, read_checkpoint
from sessionization.spark.checkpoint.spark_logs import read_started_batch
from sessionization.spark.engine.job_conf import TIME_ZONE_CONF
from sessionization.spark.engine.session import job_session, session_for_uris

_COUNTS = ("devices", "live", "closed", "pending_ends", "timers")


def inspect_state(settings: InspectSettings, say: Say) -> None:
    """Print the state of a checkpoint, and check its invariants.

    Raises `CheckpointError` or `ConfigurationError` where there is no state to read, and `StateError` at the end where
    an invariant does not hold.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(session_for_uris(settings, say))
        checkpoint = read_checkpoint(settings.state.checkpoints)
        spark = stack.enter_context(job_session(depends_on=TIME_ZONE_CONF))
        state = StateReader(spark, checkpoint.folder).at_newest()
        context = state_context(checkpoint, state)
        for line in _report_lines(state, context, settings):
            say(line)
        violations, count = check_state(state, context), len(invariant_names(context))
    if violations:
        msg = (
            f"{len(violations)} of {count} invariants do not hold ({'; '.join(map(str, violations))}): "
            "keep a copy of the checkpoint, and see docs/state.md"
        )
        raise StateError(msg)
    say(f"{count} invariants hold")


def state_context(checkpoint: Checkpoint, state: StateReader) -> StateContext:
    """The context for checks of the state after a micro-batch.

    Raises `CheckpointError` where Spark's log cannot be read, or lacks the number of partitions.
    """
    assert state.batch_id is not None
    started_batch = read_started_batch(checkpoint.folder / SESSIONIZE, state.batch_id)
    if started_batch.partitions is None:
        msg = (
            f"micro-batch {state.batch_id} in --checkpoints {checkpoint.folder} does not say how many state partitions "
            "it has: restore the checkpoint from a backup"
        )
        raise CheckpointError(msg)
    return StateContext(started_batch.clock_ms, checkpoint.in_force, checkpoint.layout, started_batch.partitions)


def check_state(state: StateReader, context: StateContext) -> list[Violation]:
    """The invariants that the state breaks; the state is read once and cached during the checks."""
    entries, timers = state.entries(), state.timers()
    with contextlib.ExitStack() as stack:
        for frame in (entries, timers):
            with contextlib.suppress(PySparkException):  # serverless compute refuses it, and reads them each time
                stack.callback(frame.persist().unpersist)
        return find_violations(entries, timers, context)


def invariant_frame(state: StateReader) -> DataFrame:
    """All invariants and how often the state breaks each, for notebooks.

    Returns:
        `invariant`, `broken` (how many entries, devices or keys break it; 0 in a correct state) and `example`.

    Raises as `inspect_state` does, but nothing where an invariant does not hold.
    """
    state = state.at_newest()
    context = state_context(read_checkpoint(state.checkpoints), state)
    by_invariant = {violation.invariant: violation for violation in check_state(state, context)}
    rows = [
        (name, *((by_invariant[name].count, by_invariant[name].example) if name in by_invariant else (0, None)))
        for name in invariant_names(context)
    ]
    return state.spark.createDataFrame(rows, "invariant string, broken bigint, example string")


def _report_lines(state: StateReader, context: StateContext, settings: InspectSettings) -> Iterator[str]:
    partitions = state.by_partition().collect()
    yield (
        f"state after micro-batch {state.batch_id} of {utc(context.clock_ms):%Y-%m-%d %H:%M:%S} UTC, "
        f"{context.layout}, in {context.partitions} partitions"
    )
    yield _text_table(("partition", *_COUNTS), [*partitions, _total(partitions)])
    if settings.fullest:
        yield from _section("the devices with the most entries", state.largest_devices(settings.fullest))
    if settings.device is not None:
        yield from _section(f"device {settings.device}", state.of_device(settings.device))


def _total(partitions: list[Row]) -> Row:
    return Row(partition="all", **{name: sum(row[name] for row in partitions) for name in _COUNTS})


def _section(title: str, frame: DataFrame) -> Iterator[str]:
    rows = frame.select(*(F.col(name).cast("string") for name in frame.columns)).collect()
    yield f"{title}:" if rows else f"{title}: nothing is remembered"
    if rows:
        yield _text_table(tuple(frame.columns), rows)


def _text_table(names: tuple[str, ...], rows: list[Row]) -> str:
    cells = [names, *(tuple("-" if row[name] is None else str(row[name]) for name in names) for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(names))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
    )
