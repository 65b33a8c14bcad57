"""The totals of a run so far, added up from the micro-batches of its queries."""

import threading
from dataclasses import dataclass, fields, replace

from pyspark.sql import SparkSession

from sessionization.job.delays import Delays, RunDelays
from sessionization.spark.output.progress import BatchProgress
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSIONS


@dataclass(frozen=True, slots=True)
class Totals:
    """Rows since the run began, named as in `stream_progress`; `messages` counts the input of the archive query."""

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
    """Totals to which the queries' threads add, and which the main thread reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals = Totals()
        self._last: dict[str, BatchProgress] = {}
        self._delays = RunDelays()

    def add(self, progress: BatchProgress) -> None:
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
            self._delays.add(progress)

    def snapshot(self) -> tuple[Totals, dict[str, BatchProgress]]:
        """The totals, and each query's newest micro-batch."""
        with self._lock:
            return self._totals, dict(self._last)

    def delays(self) -> Delays:
        """The lateness and latency percentiles over the whole run."""
        with self._lock:
            return self._delays.percentiles()


def count_live_sessions(spark: SparkSession, location: TableLocation) -> int:
    """Count the sessions that the table `sessions` shows as live."""
    return location.read(spark.read, SESSIONS).where("status = 'live'").count()
