"""Appends micro-batches to tables, each one once (docs/adr/0029-appends-without-a-look-up.md)."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row, SparkSession

from sessionization.clock import utc
from sessionization.errors import CheckpointError
from sessionization.spark.checkpoint.spark_logs import InterruptedBatch
from sessionization.spark.tables.lease_claim import no_lease
from sessionization.spark.tables.location import MAX_COMMITS_READ, TableLocation
from sessionization.spark.tables.schemas import Table


@dataclass(frozen=True, slots=True)
class BatchWriter:
    """Appends the micro-batches of one query.

    Each commit names its writer and micro-batch.

    - The `interrupted` micro-batch may be in a table already. This class looks it up in the table's history. Delta
      looks it up once more (`txnAppId`), because the start before may have had no lock, and its driver may still run.
    - Any other micro-batch is new, as long as a lock excludes every other driver.
    - Without such a lock Delta looks up every micro-batch. For that it rebuilds the state of the table's log each time.
    """

    location: TableLocation
    writer_id: str
    is_exclusive: bool = False
    """Whether a lock of the operating system excludes every other driver that writes these tables."""
    interrupted: InterruptedBatch | None = None
    check_lease: Callable[[], None] = no_lease
    """Raises `StreamError` where this run may not write any more (`lease.Lease.check`)."""

    def append(self, rows: DataFrame, table: Table, batch_id: int) -> None:
        """Append a micro-batch's rows; a second call for the same table and micro-batch appends nothing.

        Raises `CheckpointError` where the table's history does not tell whether it has the interrupted micro-batch.
        This holds without a lock too: the start before may have had one, and have appended without `txnAppId`.
        """
        name = f"{self.writer_id} {batch_id}"
        interrupted = self.interrupted if self.interrupted and batch_id <= self.interrupted.batch_id else None
        if interrupted is not None and self._is_written(interrupted, rows.sparkSession, table, batch_id):
            return
        is_new = self.is_exclusive and interrupted is None
        self.check_lease()
        look_up = {} if is_new else {"txnAppId": self.writer_id, "txnVersion": str(batch_id)}
        self.location.append(rows, table, userMetadata=name, **look_up)

    def _is_written(self, interrupted: InterruptedBatch, spark: SparkSession, table: Table, batch_id: int) -> bool:
        newest = newest_appended_batch(self.location, spark, table, self.writer_id)
        if newest < 0:  # none of the newest commits
            commits = _commits(self.location, spark, table, None)
            newest = _newest_batch(commits, self.writer_id)
            oldest = commits[-1]
            if newest < 0 and not _reaches_back_to(oldest, interrupted.began_ms):
                msg = (
                    f"{table.name} may or may not have the rows of micro-batch {batch_id}, which was interrupted: it "
                    f"began at {utc(interrupted.began_ms)}, and the table's history begins only at "
                    f"{utc(_written_ms(oldest))}"
                )
                raise CheckpointError(msg)
        return newest >= batch_id


def newest_appended_batch(location: TableLocation, spark: SparkSession, table: Table, writer_id: str) -> int:
    """The newest micro-batch that a writer has appended; -1 where the newest commits contain none."""
    return _newest_batch(_commits(location, spark, table, MAX_COMMITS_READ), writer_id)


def _commits(location: TableLocation, spark: SparkSession, table: Table, limit: int | None) -> list[Row]:
    """The newest commits of a table, or all that its log still has, from the newest on."""
    history = location.delta_table(spark, table).history(*(() if limit is None else (limit,)))
    return history.select("version", "timestamp", "userMetadata").collect()


def _newest_batch(commits: list[Row], writer_id: str) -> int:
    written = ((row.userMetadata or "").rpartition(" ") for row in commits)
    return max((int(batch_id) for writer, _, batch_id in written if writer == writer_id), default=-1)


def _reaches_back_to(oldest: Row, instant_ms: int) -> bool:
    return bool(oldest.version == 0 or _written_ms(oldest) <= instant_ms)


def _written_ms(commit: Row) -> int:
    return int(commit.timestamp.timestamp() * 1_000)
