"""Micro-batches as a sink and the engine tell of them, for the tests of the monitor."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from sessionization.monitor.batch_monitor import BatchMonitor
from sessionization.monitor.batch_record import Record
from sessionization.spark.output.progress import BatchDetail, BatchProgress, Percentiles

NONE = Percentiles(None, None, None)
AT_MS = 1_763_726_400_123
ENDS = {"reported": 2, "superseded": 0, "timed_out": 1, "orphaned": 1}


def beat(batch_id: int = 0, **more: Any) -> BatchProgress:
    """A micro-batch of the sessionize query."""
    counts: dict[str, Any] = {"started": 3, "heartbeats": 5, "ended": 4, "duplicate_start": 1, "duplicate_end": 0}
    detail = BatchDetail(ends=ENDS, rows_out=12, largest_partition=9, write_ms=40)
    lateness, latency = Percentiles(100, 200, 250), Percentiles(30, 60, 70)
    return BatchProgress(
        "sessionize", batch_id, AT_MS, 7, 500, latency, lateness, detail=detail, evicted=0, **counts, **more
    )


def other(query: str, **more: Any) -> BatchProgress:
    return BatchProgress(query, 0, AT_MS, rows_in=8, batch_ms=90, latency=NONE, **more)


def engine(batch_id: int = 0, name: str = "sessionize", **source: str) -> Any:
    operator = SimpleNamespace(numRowsTotal=70, memoryUsedBytes=4096, commitTimeMs=33, numShufflePartitions=4)
    ticks = SimpleNamespace(description="RateStreamV2[...]", latestOffset="9", endOffset="3")
    sources = [ticks, SimpleNamespace(**source)] if source else [ticks]
    durations = {"addBatch": 450, "walCommit": 20}
    return SimpleNamespace(
        name=name, batchId=batch_id, durationMs=durations, sources=sources, stateOperators=[operator]
    )


class Session:
    """In place of a Spark session: keeps the listener that is added, to be told by the test."""

    def __init__(self) -> None:
        self.streams = self
        self.listeners: list[BatchMonitor] = []

    def addListener(self, added: BatchMonitor) -> None:  # noqa: N802 - Spark's name
        self.listeners.append(added)

    def removeListener(self, added: BatchMonitor) -> None:  # noqa: N802 - Spark's name
        self.listeners.remove(added)

    def hears(self, progress: Any) -> None:
        for one in self.listeners:
            one.onQueryProgress(SimpleNamespace(progress=progress))


class Taken:
    """An outlet's other side: keeps what it is told."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def __call__(self, one: Record) -> None:
        self.records.append(one)


def wait_for(reached: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 5
    while not reached():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)
