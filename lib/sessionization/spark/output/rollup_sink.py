"""The sink of the query `rollup`: it merges changes into `sessions`, and compacts the tables that the stream writes."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.errors import CheckpointError
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.engine.generated_code import generate_code
from sessionization.spark.output.progress import BatchProgress
from sessionization.spark.output.sinks import INGEST_INSTANTS, Sink
from sessionization.spark.tables import rollup
from sessionization.spark.tables.compaction import CHANGES_TARGETS, SESSIONS_TARGETS, Turns
from sessionization.spark.tables.log_cleanup import delete_old_log_entries
from sessionization.spark.tables.schemas import SESSIONS, TABLES

_log = logging.getLogger(__name__)

GENERATE_CODE_ROWS = 200_000
"""From so many rows in `sessions` on, a MERGE with generated code is faster, on two cores."""
_LOOK_AT_SIZE_EVERY_BATCHES = 100
"""How often `sessions` is counted for that; before the first MERGE of a run it always is."""
_MERGED_COUNTS = (
    "count(*) AS rows_in",
    "count_if(change = 'started') AS opened",
    "count_if(end_reason = 'orphaned') AS orphaned",
    "count_if(change = 'ended' AND revision = 0 AND end_reason != 'orphaned') AS closed",
    f"{rollup.OLDEST_EVENT_MS} AS oldest_ms",
    "unix_millis(min(processed_at)) AS first_ms",
    "unix_millis(max(processed_at)) AS newest_ms",
    INGEST_INSTANTS,
)


@dataclass
class RollupSink(Sink):
    """Merge all changes but heartbeats into `sessions`, and every few minutes compact a table or clean up logs.

    This query does so because only `sessions` waits for it, while a pause of the query that writes `session_changes`
    would delay heartbeats. Where another job writes `session_changes`, that job compacts it, because a table in a
    folder allows only one writer at a time.
    """

    lookback_ms: int
    """How far apart in event time the messages of one session may lie (`rollup.lookback`)."""
    compacts_changes: bool = True
    first_unread: Callable[[], int | None] = lambda: None
    """The first version of `session_changes` that this query may still read; None if that is not known."""
    labels: Sequence[str] = ()
    """The label columns of the tables."""
    has_activity: bool = False
    """Whether sessions may be resumed. Then the changes alone do not say how many are live."""
    live: int | None = field(default=None, init=False)
    _has_merged: bool = field(default=False, init=False)
    _turns: Turns[Callable[[SparkSession], None]] = field(init=False)

    def __post_init__(self) -> None:
        targets = (*CHANGES_TARGETS, *SESSIONS_TARGETS) if self.compacts_changes else SESSIONS_TARGETS
        compactions = [partial(target.compact, location=self.context.location) for target in targets]
        self._turns = Turns([*compactions, self._clean_up_logs])

    def _count_live(self, spark: SparkSession, increase: int) -> None:
        """Update `live`: from the table after the first micro-batch of a run, then, if possible, from the changes."""
        if self.live is not None and not self.has_activity:
            self.live += increase
            return
        try:
            self.live = self.context.location.read(spark.read, SESSIONS).where("status = 'live'").count()
        except (PySparkException, Py4JError) as error:  # such as a stop; the next micro-batch tries again
            _log.info("live sessions could not be counted: %s", root_cause(str(error)))

    def _merge(self, batch: DataFrame, batch_id: int, since: str) -> int:
        """Merge the changes, and return how many rows were inserted."""
        spark, location = batch.sparkSession, self.context.location
        if not self._has_merged or batch_id % _LOOK_AT_SIZE_EVERY_BATCHES == 0:
            if location.read(spark.read, SESSIONS).count() >= GENERATE_CODE_ROWS:  # Delta answers from the log
                generate_code(spark)
            self._has_merged = True
        self.context.check_lease()
        inserted: int = rollup.merge(spark, location, batch, since, self.labels).num_inserted_rows
        return inserted

    def _count_starts_of_ended(self, batch: DataFrame, counts: Row, since: str, inserted: int) -> tuple[int, int]:
        """The reused ids and the late Starts among the changes that were merged (`rollup.count_starts_of_ended`)."""
        # Only Starts and orphaned ends insert rows. Where all of them did, each Start was new: no query is needed.
        if counts.opened + counts.orphaned <= inserted:
            return 0, 0
        sessions = self.context.location.read(batch.sparkSession.read, SESSIONS)
        found = rollup.count_starts_of_ended(sessions, batch, since, counts.first_ms)
        return found.reused_ids, found.late_starts

    def write(self, batch: DataFrame, batch_id: int, began_ms: int) -> BatchProgress:
        counts = batch.selectExpr(*_MERGED_COUNTS).first()
        assert counts is not None
        counted_ms = wall_clock_ms()
        since = rollup.search_since(counts.oldest_ms or 0, self.lookback_ms)
        inserted = self._merge(batch, batch_id, since) if counts.rows_in else 0
        committed_ms = wall_clock_ms()
        reused_ids, late_starts = self._count_starts_of_ended(batch, counts, since, inserted)
        self._count_live(batch.sparkSession, counts.opened - counts.closed)
        if maintain := self._turns.next_if_due():
            self.context.check_lease()
            maintain(batch.sparkSession)
        return replace(
            self._progress(counts, batch_id, began_ms, committed_ms),
            reused_ids=reused_ids,
            late_starts=late_starts,
            live=self.live,
            write_ms=max(0, committed_ms - counted_ms),
            newest_ms=counts.newest_ms,
        )

    def _clean_up_logs(self, spark: SparkSession) -> None:
        try:
            first_unread = self.first_unread()
        except CheckpointError as error:
            _log.warning("the logs were not cleaned up: %s", error)
            return
        location = self.context.location
        delete_old_log_entries(spark, location, location.present(spark, TABLES), first_unread)
