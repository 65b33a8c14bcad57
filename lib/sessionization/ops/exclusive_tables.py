"""Open the tables for a job that changes them: check that the checkpoint owns them, and lock tables in folders."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence

from pyspark.sql import SparkSession

from sessionization.ops.maintenance_settings import EraseSettings, MaintainSettings
from sessionization.say import Say
from sessionization.spark.checkpoint.folder import read_checkpoint
from sessionization.spark.checkpoint.folder_lock import lock_folder
from sessionization.spark.engine.job_conf import MESSAGES_CONF, TIME_ZONE_CONF
from sessionization.spark.engine.session import job_session, session_for_uris
from sessionization.spark.tables.lease import (
    LANDING_LEASE,
    MAINTENANCE_LEASE,
    PLAYERS_LEASE,
    STREAM_LEASE,
    Lease,
    hold_lease,
)
from sessionization.spark.tables.lease_table import StoredLease
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import Table


@contextlib.contextmanager
def open_tables_exclusively(
    settings: MaintainSettings | EraseSettings,
    needed: Sequence[Table],
    say: Say,
    stop: threading.Event | None = None,
) -> Iterator[tuple[SparkSession, TableLocation, Callable[[], None]]]:
    """Give a session and the location of the tables, which the body may change, and keep other jobs out.

    Where no lock of the system reaches, leases do that. A lease that is lost sets `stop`. The third value given is a
    check for the body to call before each change: it raises `StreamError` where a lease is lost. Maintenance may run
    beside the sessionize job where the tables are in a catalog.

    Raises `ConfigurationError` where a needed table does not exist, this engine cannot maintain it or Spark has another
    default storage, `CheckpointError` where another job runs or `--checkpoints` does not own the tables, and
    `StoppedError` when `stop` is set before the body begins. A folder that is not a checkpoint is not changed.
    """
    location, checkpoints = TableLocation.of(settings.tables), settings.state.checkpoints
    stop, is_exclusive = stop or threading.Event(), False
    leases: list[Lease] = []
    is_maintenance = isinstance(settings, MaintainSettings)
    job = "maintain" if is_maintenance else "erase_account"
    with contextlib.ExitStack() as stack:
        stack.enter_context(session_for_uris(settings, say))
        if checkpoints is not None:
            read_checkpoint(checkpoints)
            if location.warehouse is not None:
                stack.enter_context(lock_folder(checkpoints, say, stop))
                is_exclusive = stack.enter_context(location.lock_for_stream(say, stop))
                stack.enter_context(location.lock_for_maintenance(say, stop))
                stack.enter_context(location.lock_for_players(say, stop))
        depends_on = TIME_ZONE_CONF if is_maintenance else MESSAGES_CONF
        spark = stack.enter_context(job_session(depends_on=depends_on, settings=settings))
        location.require(spark, needed)
        location.refuse_catalog_managed(spark, needed)
        if not is_exclusive:
            names = _lease_names(location, is_maintenance=is_maintenance)
            stored = (StoredLease(spark, location, name) for name in names)
            leases.extend(stack.enter_context(hold_lease(lease, job, say, stop)) for lease in stored)
        if checkpoints is not None:
            location.refuse_other_owner(spark, checkpoints)

        def check_leases() -> None:
            for lease in leases:
                lease.check()

        yield spark, location, check_leases


def _lease_names(location: TableLocation, *, is_maintenance: bool) -> tuple[str, ...]:
    """The leases of a job. Landing into a catalog and the job players have their own, which an erasure excludes."""
    if location.warehouse is not None:
        return STREAM_LEASE, MAINTENANCE_LEASE, PLAYERS_LEASE
    return (MAINTENANCE_LEASE,) if is_maintenance else (STREAM_LEASE, MAINTENANCE_LEASE, LANDING_LEASE, PLAYERS_LEASE)
