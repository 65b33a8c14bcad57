"""Serve figures of the micro-batches to Prometheus, by its own client library (the extra `metrics`)."""

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    start_http_server,
)
from pyspark.sql import SparkSession

from sessionization.core.events import EndReason
from sessionization.private_spark import ReportListener
from sessionization.say import Say
from sessionization.spark.checkpoint.folder import ARCHIVE, QUERIES, SESSIONIZE
from sessionization.spark.output.progress import BatchListener, BatchProgress

PREFIX = "sessionization_"
BOUNDS_S = (0.1, 0.25, 0.5, 1, 1.5, 2, 3, 5, 7.5, 10, 20, 30, 60, 120, 300, 900, 3600)
"""Upper bounds of the buckets in seconds. 30 and 60 are limits of alerts."""
COUNTERS = {
    "micro_batches_total": "Micro-batches done since this start",
    "messages_total": "Messages read since this start",
    "quarantined_total": "Messages put into quarantine since this start",
    "events_total": "Valid events applied since this start",
    "started_total": "Sessions started since this start",
    "heartbeats_total": "Heartbeats since this start",
    "ended_total": "Ends since this start by reason, corrected ones included",
    "repeated_total": "Starts and Ends since this start that said nothing new",
    "evicted_total": "Sessions forgotten early since this start, for a device had too many",
    "reused_ids_total": "Starts since this start after the known end of a session with the same id",
    "late_starts_total": "Other Starts since this start of sessions that were over and forgotten",
}
GAUGES = {
    "live_sessions": "Live sessions, as the rollup query has them",
    "heartbeat_interval_seconds": "The option --heartbeat",
    "phase_seconds": "Time of the newest micro-batch by the engine's phase",
    "state_rows": "Rows in state",
    "state_entries": "Sessions in state: live, closed and pending ends",
    "state_bytes": "Memory used by state",
    "state_commit_seconds": "Time to commit the state, all partitions together",
    "backlog_messages": "Messages that the brokers had and the newest micro-batch did not take",
    "last_batch_timestamp_seconds": "When the newest micro-batch was committed",
    "last_heartbeat_timestamp_seconds": "When the newest heartbeat was committed",
    "last_change_timestamp_seconds": "When the newest start or end of a session was committed",
    "last_event_timestamp_seconds": "When the newest valid event was committed",
    "last_message_timestamp_seconds": "When the newest message was committed",
}
HISTOGRAMS = {
    "heartbeat_lateness_seconds": "Micro-batches by the time from due to commit of their heartbeats, p99",
    "latency_seconds": "Micro-batches by the time from ingest to commit of the rows that a message caused, p99",
    "batch_seconds": "Micro-batches by the time from their clock to the commit of their rows",
    "write_seconds": "Micro-batches by the time that the tables took to take their rows",
}
METRICS = COUNTERS | GAUGES | HISTOGRAMS
"""All metrics without `PREFIX`, with their descriptions."""
_LABELS: dict[str, tuple[str, Iterable[str]]] = {
    "ended_total": ("reason", EndReason),
    "repeated_total": ("event", ("start", "end")),
    "micro_batches_total": ("query", QUERIES),
    "latency_seconds": ("query", QUERIES),
    "batch_seconds": ("query", QUERIES),
    "write_seconds": ("query", QUERIES),
}
"""The label of counters and histograms that have one, and its values.

No label identifies a person or a device: all come from the code and the engine.
"""


class Metrics(ReportListener):
    """The metrics in a registry, computed from what the sinks and the engine report of each micro-batch.

    Counters and histograms begin at 0: a first value would not be an increase for Prometheus. A gauge is missing
    before its first value.
    """

    def __init__(self, heartbeat_ms: int) -> None:
        # Without this the library adds a second series for each counter and histogram, which nothing reads.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._lock = threading.Lock()
        """The sinks report on a thread for each query, and the engine on another one."""
        self._counters = {
            name: Counter(PREFIX + name, text, _LABELS.get(name, ())[:1], registry=self.registry)
            for name, text in COUNTERS.items()
        }
        self._histograms = {
            name: Histogram(PREFIX + name, text, _LABELS.get(name, ())[:1], registry=self.registry, buckets=BOUNDS_S)
            for name, text in HISTOGRAMS.items()
        }
        self._gauges: dict[str, Gauge] = {}
        for name, (_, values) in _LABELS.items():
            for value in values:
                (self._counters.get(name) or self._histograms[name]).labels(value)
        self._set("heartbeat_interval_seconds", heartbeat_ms / 1000)

    def add(self, progress: BatchProgress) -> None:
        """Take what a sink reports of a micro-batch."""
        with self._lock:
            self._count(progress)
            self._set_gauges(progress)
            self._observe(progress)

    def on_report(self, report: dict[str, Any]) -> None:
        """Take what the engine reports of a micro-batch; other queries of the session are ignored."""
        query = report["name"]
        if query not in QUERIES:
            return
        with self._lock:
            for phase, took_ms in report["durationMs"].items():
                self._set("phase_seconds", took_ms / 1000, query=query, phase=phase)
            self._set("backlog_messages", backlog(report["sources"]), query=query)
            for operator in report["stateOperators"][:1]:
                self._set("state_rows", operator["numRowsTotal"])
                self._set("state_bytes", operator["memoryUsedBytes"])
                self._set("state_commit_seconds", operator["commitTimeMs"] / 1000)

    def _count(self, progress: BatchProgress) -> None:
        counters = self._counters
        counters["micro_batches_total"].labels(query=progress.query).inc()
        if progress.query in (SESSIONIZE, ARCHIVE):
            counters["events_total" if progress.query == SESSIONIZE else "messages_total"].inc(progress.rows_in)
        for column in ("started", "heartbeats", "evicted", "reused_ids", "late_starts", "quarantined"):
            counters[f"{column}_total"].inc(getattr(progress, column) or 0)
        counters["repeated_total"].labels(event="start").inc(progress.duplicate_start or 0)
        counters["repeated_total"].labels(event="end").inc(progress.duplicate_end or 0)
        for reason, ends in (progress.ends or {}).items():
            counters["ended_total"].labels(reason=reason).inc(ends)

    def _set_gauges(self, progress: BatchProgress) -> None:
        committed_s = (progress.processed_ms + progress.batch_ms) / 1000
        self._set("live_sessions", progress.live)
        self._set("state_entries", progress.state_entries)
        self._set("last_batch_timestamp_seconds", committed_s, query=progress.query)
        had_rows = {
            "heartbeat": progress.heartbeats,
            "change": progress.started or progress.ended,
            "event": progress.rows_in if progress.query == SESSIONIZE else 0,
            "message": progress.rows_in if progress.query == ARCHIVE else 0,
        }
        for kind, rows in had_rows.items():
            self._set(f"last_{kind}_timestamp_seconds", committed_s if rows else None)

    def _observe(self, progress: BatchProgress) -> None:
        of_query = {
            "batch_seconds": progress.batch_ms,
            "write_seconds": progress.write_ms,
            "latency_seconds": progress.latency.p99_ms,
        }
        for name, value_ms in of_query.items():
            if value_ms is not None:
                self._histograms[name].labels(query=progress.query).observe(value_ms / 1000)
        if progress.lateness.p99_ms is not None:
            self._histograms["heartbeat_lateness_seconds"].observe(progress.lateness.p99_ms / 1000)

    def _set(self, name: str, value: float | None, **labels: str) -> None:
        """Set a gauge, which its first value registers; None leaves it as it is."""
        if value is None:
            return
        if name not in self._gauges:
            self._gauges[name] = Gauge(PREFIX + name, GAUGES[name], list(labels), registry=self.registry)
        gauge = self._gauges[name]
        (gauge.labels(**labels) if labels else gauge).set(value)


def backlog(sources: Iterable[dict[str, Any]]) -> int | None:
    """How many messages the brokers had that a micro-batch did not take; None where no source is Kafka."""
    messages: int | None = None
    for source in sources:
        if source["description"].startswith("KafkaV2"):
            newest, taken = source["latestOffset"] or {}, source["endOffset"] or {}
            behind = (
                offset - taken.get(topic, {}).get(partition, offset)
                for topic, offsets in newest.items()
                for partition, offset in offsets.items()
            )
            messages = (messages or 0) + sum(max(0, count) for count in behind)
    return messages


@contextlib.contextmanager
def serve_metrics(
    spark: SparkSession, metrics: Metrics, host: str, port: int, say: Say
) -> Iterator[list[BatchListener]]:
    """Serve the metrics while the body runs; gives what to call after every micro-batch (`serve_registry`)."""
    with serve_registry(metrics.registry, host, port, say) as is_served:
        if not is_served:
            yield []
            return
        try:
            spark.streams.addListener(metrics)
            yield [metrics.add]
        finally:
            with contextlib.suppress(Exception):  # other code reports a dead engine
                spark.streams.removeListener(metrics)


@contextlib.contextmanager
def serve_registry(registry: CollectorRegistry, host: str, port: int, say: Say) -> Iterator[bool]:
    """Serve a registry while the body runs, on threads of the library.

    Where the address cannot be used, `say` says so, and nothing is served: the job goes on. Yields whether it is.
    """
    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as error:
        say(f"--metrics-port {port} of {host} cannot be served ({error}): the job goes on without")
        yield False
        return
    say(f"metrics for Prometheus on port {server.server_port} of {host}, /metrics")
    try:
        yield True
    finally:
        server.shutdown()
        server.server_close()
