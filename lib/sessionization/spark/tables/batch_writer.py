"""Appends micro-batches to tables, each one once (docs/adr/0029-one-path-of-appends.md)."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from sessionization.spark.tables.lease_table import no_lease
from sessionization.spark.tables.location import MAX_COMMITS_READ, TableLocation
from sessionization.spark.tables.schemas import Table


@dataclass(frozen=True, slots=True)
class BatchWriter:
    """Appends the micro-batches of one query.

    Delta stores in the commit which micro-batch of which writer it has (`txnAppId`, `txnVersion`), and skips an append
    of a micro-batch that the table has. So it does not matter who repeats one: a restart, or a driver that hung.
    """

    location: TableLocation
    writer_id: str
    check_lease: Callable[[], None] = no_lease
    """Raises `StreamError` where this run may not write any more (`lease.Lease.check`)."""

    def append(self, rows: DataFrame, table: Table, batch_id: int) -> None:
        """Append a micro-batch's rows; a second call for the same table and micro-batch appends nothing."""
        self.check_lease()
        self.location.append(
            rows,
            table,
            txnAppId=self.writer_id,
            txnVersion=str(batch_id),
            userMetadata=f"{self.writer_id} {batch_id}",  # for `newest_appended_batch`, and for people
        )


def newest_appended_batch(location: TableLocation, spark: SparkSession, table: Table, writer_id: str) -> int:
    """The newest micro-batch that a writer has appended; -1 where the newest commits contain none.

    It reads the table's history, because Delta has no public call that returns the newest `txnVersion`.
    """
    commits = location.history(spark, table, MAX_COMMITS_READ).select("userMetadata").collect()
    written = ((row.userMetadata or "").rpartition(" ") for row in commits)
    return max((int(batch_id) for writer, _, batch_id in written if writer == writer_id), default=-1)
