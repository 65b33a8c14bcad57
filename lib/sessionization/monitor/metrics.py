"""The queries' metrics, computed from the records and details of their micro-batches."""

import threading
from collections.abc import Iterator
from copy import deepcopy
from datetime import datetime

from sessionization.core.events import EndReason
from sessionization.monitor.batch_record import Record
from sessionization.monitor.delay_histogram import DelayHistogram
from sessionization.spark.checkpoint.folder import ARCHIVE, ROLLUP, SESSIONIZE
from sessionization.spark.output.progress import BatchDetail, DelaySample

Labels = tuple[tuple[str, str], ...]
"""Names and values of labels. None identifies a person or a device: all come from the code and the engine."""

PATH = "/metrics"
PREFIX = "sessionization_"
METRICS = {
    "micro_batches_total": ("counter", "Micro-batches done since this start"),
    "messages_total": ("counter", "Messages read since this start"),
    "quarantined_total": ("counter", "Messages put into quarantine since this start"),
    "events_total": ("counter", "Valid events applied since this start"),
    "started_total": ("counter", "Sessions started since this start"),
    "heartbeats_total": ("counter", "Heartbeats since this start"),
    "ended_total": ("counter", "Ends since this start by reason, corrected ones included"),
    "repeated_total": ("counter", "Starts and Ends since this start that said nothing new"),
    "evicted_total": ("counter", "Sessions forgotten early since this start, for a device had too many"),
    "reused_ids_total": ("counter", "Starts since this start after the known end of a session with the same id"),
    "late_starts_total": ("counter", "Other Starts since this start of sessions that were over and forgotten"),
    "live_sessions": ("gauge", "Live sessions, as the rollup query has them"),
    "heartbeat_lateness_seconds": ("histogram", "Heartbeats by the time from due to commit"),
    "heartbeat_interval_seconds": ("gauge", "The option --heartbeat"),
    "keeps_up": ("gauge", "0 once heartbeats were late by more than an interval in three micro-batches in a row"),
    "latency_seconds": ("histogram", "Rows that a message caused by the time from ingest to commit"),
    "batch_seconds": ("histogram", "Micro-batches by the time from their clock to the commit of their rows"),
    "write_seconds": ("histogram", "Micro-batches by the time that the tables took to take their rows"),
    "phase_seconds": ("gauge", "Time of the newest micro-batch by the engine's phase"),
    "state_rows": ("gauge", "Rows in state"),
    "state_entries": ("gauge", "Sessions in state: live, closed and pending ends"),
    "state_bytes": ("gauge", "Memory used by state"),
    "state_commit_seconds": ("gauge", "Time to commit the state, all partitions together"),
    "partition_skew_ratio": ("gauge", "Rows of the largest partition by those of the average one"),
    "backlog_messages": ("gauge", "Messages that the brokers had and the newest micro-batch did not take"),
    "last_batch_timestamp_seconds": ("gauge", "When the newest micro-batch was committed"),
    "last_heartbeat_timestamp_seconds": ("gauge", "When the newest heartbeat was committed"),
    "last_change_timestamp_seconds": ("gauge", "When the newest start or end of a session was committed"),
    "last_event_timestamp_seconds": ("gauge", "When the newest valid event was committed"),
    "last_message_timestamp_seconds": ("gauge", "When the newest message was committed"),
}
"""By name without `PREFIX`: the kind of the metric, and its description."""
_HISTOGRAMS_PER_QUERY = {"batch_ms": "batch_seconds", "write_ms": "write_seconds"}
_LABELS_AT_START: dict[str, list[Labels]] = {
    "ended_total": [(("reason", str(reason)),) for reason in EndReason],
    "repeated_total": [(("event", event),) for event in ("start", "end")],
    **{
        name: [(("query", query),) for query in (SESSIONIZE, ARCHIVE, ROLLUP)]
        for name in ("micro_batches_total", "latency_seconds", *_HISTOGRAMS_PER_QUERY.values())
    },
}
"""The labels of counters and histograms that have some."""
_METRICS_WITHOUT_LABELS = {
    "started": "started_total",
    "heartbeats": "heartbeats_total",
    "evicted": "evicted_total",
    "reused_ids": "reused_ids_total",
    "late_starts": "late_starts_total",
    "quarantined": "quarantined_total",
    "live": "live_sessions",
    "state_rows": "state_rows",
    "state_bytes": "state_bytes",
    "state_entries": "state_entries",
    "keeps_up": "keeps_up",
    "state_commit_ms": "state_commit_seconds",
    "skew": "partition_skew_ratio",
}
_METRICS_OF_ROWS_IN = {
    SESSIONIZE: ("events_total", "last_event_timestamp_seconds"),
    ARCHIVE: ("messages_total", "last_message_timestamp_seconds"),
}
"""By query: the counter of the rows that it read, and the gauge of when it last had some."""

_Sample = tuple[str, dict[str, str], float | DelaySample]


class Metrics:
    """Values from the micro-batches. One thread adds, others read.

    Counters and histograms are added up, and begin at 0: a first value would not be an increase for Prometheus. Gauges
    hold the newest value, and are missing before it.
    """

    def __init__(self, heartbeat_ms: int) -> None:
        """`heartbeat_ms` is the heartbeat interval."""
        self._lock = threading.Lock()
        self._values: dict[str, dict[Labels, float]] = {name: {} for name in METRICS}
        self._histograms: dict[str, dict[Labels, DelayHistogram]] = {}
        for name, (kind, _) in METRICS.items():
            for labels in _LABELS_AT_START.get(name, [()]):
                if kind == "counter":
                    self._values[name][labels] = 0
                elif kind == "histogram":
                    self._histograms.setdefault(name, {})[labels] = DelayHistogram()
        self._values["heartbeat_interval_seconds"][()] = heartbeat_ms / 1000

    def __call__(self, record: Record, detail: BatchDetail) -> None:
        samples = list(_samples(record, detail))
        with self._lock:
            for name, labels, value in samples:
                values, key = self._values[name], tuple(labels.items())
                if isinstance(value, DelaySample):
                    self._histograms[name][key].add(value)
                else:
                    values[key] = values.get(key, 0) + value if METRICS[name][0] == "counter" else value

    def values(self) -> dict[str, dict[Labels, float]]:
        """The counters and gauges by name and labels, where there are any; a metric's labels have the same names."""
        with self._lock:
            return {name: dict(values) for name, values in self._values.items() if values}

    def histograms(self) -> dict[str, dict[Labels, DelayHistogram]]:
        """Copies of the histograms by name and labels."""
        with self._lock:
            return deepcopy(self._histograms)


def _samples(record: Record, detail: BatchDetail) -> Iterator[_Sample]:
    query = {"query": record["query"]}
    committed_s = datetime.fromisoformat(record["at"]).timestamp() + record["batch_ms"] / 1000
    yield "micro_batches_total", query, 1
    yield "last_batch_timestamp_seconds", query, committed_s
    yield from ((name, {}, committed_s) for name in _gauges_of_last_times(record))
    if record["query"] in _METRICS_OF_ROWS_IN:
        counter, _ = _METRICS_OF_ROWS_IN[record["query"]]
        yield counter, {}, record["rows_in"]
    for field, value in record.items():
        if field in _METRICS_WITHOUT_LABELS:
            yield _METRICS_WITHOUT_LABELS[field], {}, _in_seconds(field, value)
        if field in _HISTOGRAMS_PER_QUERY:
            yield _HISTOGRAMS_PER_QUERY[field], query, DelaySample(1, (value,))
    if "backlog" in record:
        yield "backlog_messages", query, record["backlog"]
    for event in ("start", "end"):
        if f"duplicate_{event}" in record:
            yield "repeated_total", {"event": event}, record[f"duplicate_{event}"]
    for reason, count in record.get("ends", {}).items():
        yield "ended_total", {"reason": reason}, count
    for phase, ms in record.get("phases_ms", {}).items():
        yield "phase_seconds", query | {"phase": phase}, ms / 1000
    if detail.latency is not None:
        yield "latency_seconds", query, detail.latency
    if detail.lateness is not None:
        yield "heartbeat_lateness_seconds", {}, detail.lateness


def _gauges_of_last_times(record: Record) -> Iterator[str]:
    """The gauges of when something was last committed, where the micro-batch had it."""
    if record.get("heartbeats"):
        yield "last_heartbeat_timestamp_seconds"
    if record.get("started") or record.get("ended"):
        yield "last_change_timestamp_seconds"
    if record["query"] in _METRICS_OF_ROWS_IN and record["rows_in"]:
        _, gauge = _METRICS_OF_ROWS_IN[record["query"]]
        yield gauge


def _in_seconds(field: str, value: float) -> float:
    return value / 1000 if field.endswith("_ms") else value
