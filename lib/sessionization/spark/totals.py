"""What a run has done so far, added up from the micro-batches of its queries."""

import threading
from dataclasses import dataclass, fields, replace

from pyspark.sql import SparkSession

from sessionization.spark.progress import Progress
from sessionization.spark.table_home import TableHome
from sessionization.spark.tables import SESSION_CHANGES, SESSIONS, STREAM_PROGRESS

_DELAYS_OVER_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Totals:
    """Rows since the run began, named as in `stream_progress`; `messages` are what the archive query read."""

    messages: int = 0
    quarantined: int = 0
    events: int = 0
    started: int = 0
    heartbeats: int = 0
    ended: int = 0
    duplicate_start: int = 0
    duplicate_end: int = 0
    evicted: int = 0

    @property
    def repeated(self) -> int:
        return self.duplicate_start + self.duplicate_end


class RunningTotals:
    """Totals that the queries' threads add to and the main thread reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals = Totals()
        self._last: dict[str, Progress] = {}

    def add(self, progress: Progress) -> None:
        counted = {"events" if progress.query == "sessionize" else "messages": progress.rows_in}
        if progress.query == "rollup":
            counted = {}
        for field in fields(Totals):
            counted.setdefault(field.name, getattr(progress, field.name, None) or 0)
        with self._lock:
            self._totals = replace(
                self._totals, **{name: getattr(self._totals, name) + count for name, count in counted.items()}
            )
            self._last[progress.query] = progress

    def now(self) -> tuple[Totals, dict[str, Progress]]:
        """The totals, and each query's newest micro-batch."""
        with self._lock:
            return self._totals, dict(self._last)


@dataclass(frozen=True, slots=True)
class Delays:
    """p50 and p99 in milliseconds over the run's last hour; None where nothing was measured."""

    lateness_p50_ms: int | None = None
    lateness_p99_ms: int | None = None
    latency_p50_ms: int | None = None
    latency_p99_ms: int | None = None


def delays_since(spark: SparkSession, home: TableHome, began_ms: int, now_ms: int) -> Delays:
    """Heartbeat lateness (due to commit) and event-to-table latency (ingest to commit), row by row from the tables."""
    since_ms = max(began_ms, now_ms - _DELAYS_OVER_MS)
    row = spark.sql(
        f"""
        WITH commits AS (
          SELECT processed_at, max(unix_millis(processed_at) + batch_ms) AS committed_ms
          FROM {home.sql_name(STREAM_PROGRESS.name)}
          WHERE query = 'sessionize' AND processed_at >= timestamp_millis({since_ms})
          GROUP BY processed_at
        ), delays AS (
          SELECT committed_ms - unix_millis(due_at) AS lateness_ms, committed_ms - unix_millis(ingested_at) AS latency_ms
          FROM {home.sql_name(SESSION_CHANGES.name)} JOIN commits USING (processed_at)
          WHERE change_date >= to_date(timestamp_millis({since_ms})) AND processed_at >= timestamp_millis({since_ms})
        )
        SELECT percentile_approx(lateness_ms, array(0.5, 0.99)) AS lateness,
               percentile_approx(latency_ms, array(0.5, 0.99)) AS latency
        FROM delays
        """
    ).first()
    lateness, latency = (row.lateness or (None, None), row.latency or (None, None)) if row else ((None,) * 2,) * 2
    return Delays(*lateness, *latency)


def live_now(spark: SparkSession, home: TableHome) -> int:
    """How many sessions the table `sessions` shows as live."""
    return home.read(spark.read, SESSIONS).where("status = 'live'").count()
