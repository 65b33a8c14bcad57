"""How a job that changes the tables beside the stream comes to them: by the checkpoint that is theirs, and alone on folders."""

import contextlib
import threading
from collections.abc import Iterator, Sequence

from pyspark.sql import SparkSession

from sessionization.ops.maintenance_settings import EraseSettings, MaintainSettings
from sessionization.say import Say
from sessionization.spark.checkpoint.folder import read_checkpoint
from sessionization.spark.checkpoint.folder_lock import lock_folder
from sessionization.spark.engine.session import job_session
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import Table


@contextlib.contextmanager
def open_tables_exclusively(
    settings: MaintainSettings | EraseSettings,
    needed: Sequence[Table],
    say: Say,
    stop: threading.Event | None = None,
) -> Iterator[tuple[SparkSession, TableLocation]]:
    """A session and the location of the tables, to be changed by the body; on folders every other job is kept out meanwhile.

    Raises `ConfigurationError` where a table that is needed is not there, `CheckpointError` where another job runs on folders or
    `--checkpoints` is not the folder of the one that writes the tables, and `StoppedError` when `stop` is set before the
    body begins. A folder that is no checkpoint is left as it is.
    """
    location, checkpoints = TableLocation.of(settings), settings.checkpoints
    with contextlib.ExitStack() as stack:
        if checkpoints is not None:
            read_checkpoint(checkpoints)
            if location.warehouse is not None:
                stack.enter_context(lock_folder(checkpoints, say, stop))
                stack.enter_context(location.lock_for_stream(say, stop))
                stack.enter_context(location.lock_for_maintenance(say, stop))
        spark = stack.enter_context(job_session())
        location.require(spark, needed)
        if checkpoints is not None:
            location.refuse_other_owner(spark, checkpoints)
        yield spark, location
