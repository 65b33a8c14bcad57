"""Micro-batches as the sink and the engine report them, and the metrics as served, for the tests of the metrics."""

import urllib.request
from typing import Any

from prometheus_client import Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from sessionization.job.metrics import Metrics
from sessionization.private_spark import ReportListener
from sessionization.spark.output.progress import BatchProgress, Percentiles

NO_PERCENTILES = Percentiles(None, None, None)
AT_MS = 1_763_726_400_123
ENDS_BY_REASON = {"reported": 2, "superseded": 0, "timed_out": 1, "orphaned": 1}
KAFKA = {
    "description": "KafkaV2[Subscribe[pc_sessions]]",
    "endOffset": {"t": {"0": 10}},
    "latestOffset": {"t": {"0": 15}},
}
"""A source of the engine's report that is five messages behind."""


def sessionize_progress(batch_id: int = 0, **more: Any) -> BatchProgress:
    """Builds the sink's progress of a micro-batch of the query `sessionize`."""
    counts: dict[str, Any] = {"started": 3, "heartbeats": 5, "ended": 4, "duplicate_start": 1, "duplicate_end": 0}
    lateness, latency = Percentiles(100, 200, 250), Percentiles(30, 60, 70)
    fields = counts | {"evicted": 0, "ends": ENDS_BY_REASON, "rows_out": 12, "write_ms": 40} | more
    return BatchProgress("sessionize", batch_id, AT_MS, 7, 500, latency, **({"lateness": lateness} | fields))


def query_progress(query: str, **more: Any) -> BatchProgress:
    return BatchProgress(query, 0, AT_MS, rows_in=8, batch_ms=90, latency=NO_PERCENTILES, **more)


def one_of_each_query() -> list[BatchProgress]:
    """Micro-batches that together have every figure."""
    return [
        sessionize_progress(state_entries=90),
        query_progress("rollup", reused_ids=1, late_starts=2, live=41),
        query_progress("archive", quarantined=2),
    ]


def engine(batch_id: int = 0, name: str = "sessionize", **source: Any) -> dict[str, Any]:
    """The engine's report on a micro-batch."""
    operator = {"numRowsTotal": 70, "memoryUsedBytes": 4096, "commitTimeMs": 33}
    ticks = {"description": "RateStreamV2[...]", "latestOffset": 9, "endOffset": 3}
    return {
        "name": name,
        "batchId": batch_id,
        "durationMs": {"addBatch": 450, "walCommit": 20},
        "sources": [ticks, source] if source else [ticks],
        "stateOperators": [operator],
    }


def metrics_of(*progress: BatchProgress) -> Metrics:
    """The metrics after these micro-batches; the engine reports on those of `sessionize`."""
    metrics = Metrics(30_000)
    for batch in progress:
        metrics.add(batch)
        if batch.query == "sessionize":
            metrics.on_report(engine(batch.batch_id, **KAFKA))
    return metrics


def served(metrics: Metrics) -> list[Metric]:
    """The metric families as Prometheus's own parser reads them."""
    return list(text_string_to_metric_families(generate_latest(metrics.registry).decode()))


def get(port: int) -> str:
    """The metrics as the port serves them."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=3) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return str(answer.read().decode())


class Session:
    """Stands in for a Spark session: holds the added listeners, which the test calls by `hears`."""

    def __init__(self) -> None:
        self.streams = self
        self.listeners: list[ReportListener] = []

    def addListener(self, listener: ReportListener) -> None:  # noqa: N802 - Spark's name
        self.listeners.append(listener)

    def removeListener(self, listener: ReportListener) -> None:  # noqa: N802 - Spark's name
        self.listeners.remove(listener)

    def hears(self, report: dict[str, Any]) -> None:
        for listener in self.listeners:
            listener.on_report(report)
