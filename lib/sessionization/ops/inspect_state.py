"""Print a summary of the operator's state."""

import contextlib

from sessionization.clock import utc
from sessionization.ops.maintenance_settings import InspectSettings
from sessionization.ops.state_reader import StateReader
from sessionization.say import Say
from sessionization.spark.checkpoint.folder import read_checkpoint
from sessionization.spark.engine.job_conf import TIME_ZONE_CONF
from sessionization.spark.engine.session import job_session, session_for_uris

_MOST_ENTRIES = 1_000


def inspect_state(settings: InspectSettings, say: Say) -> None:
    """Print the state of a checkpoint, the tables on stdout.

    Raises `CheckpointError` or `ConfigurationError` where there is no state to read.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(session_for_uris(settings, say))
        checkpoint = read_checkpoint(settings.state.checkpoints)
        spark = stack.enter_context(job_session(depends_on=TIME_ZONE_CONF))
        state = StateReader(spark, checkpoint.folder).at_newest()
        batch = state.started_batch()
        assert batch.partitions is not None  # a query with state has it
        say(
            f"state after micro-batch {state.batch_id} of {utc(batch.clock_ms):%Y-%m-%d %H:%M:%S} UTC, "
            f"{checkpoint.layout}, in {batch.partitions} partitions"
        )
        state.by_partition().show(batch.partitions, truncate=False)
        if settings.fullest:
            say("the devices with the most entries:")
            state.largest_devices(settings.fullest).show(settings.fullest, truncate=False)
        if settings.device is not None:
            say(f"device {settings.device}:")
            state.of_device(settings.device).show(_MOST_ENTRIES, truncate=False)
