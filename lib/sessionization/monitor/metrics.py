"""The queries' metrics, computed from the records of their micro-batches."""

import threading
from collections.abc import Iterator
from datetime import datetime

from sessionization.monitor.batch_record import Record

PATH = "/metrics"
PREFIX = "sessionization_"
_QUANTILES = {"p50": "0.5", "p99": "0.99", "max": "1"}
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
    "live_sessions": ("gauge", "Live sessions, as the rollup query has them"),
    "heartbeat_lateness_seconds": ("gauge", "From due to commit, of the newest micro-batch with heartbeats"),
    "keeps_up": ("gauge", "0 once heartbeats were late by more than an interval in three micro-batches in a row"),
    "latency_seconds": ("gauge", "From ingest to commit, of the newest micro-batch with events"),
    "batch_seconds": ("gauge", "From the newest micro-batch's clock to the commit of its rows"),
    "write_seconds": ("gauge", "How long the tables took to take the newest micro-batch's rows"),
    "phase_seconds": ("gauge", "Time of the newest micro-batch by the engine's phase"),
    "state_rows": ("gauge", "Rows in state"),
    "state_entries": ("gauge", "Sessions in state: live, closed and pending ends"),
    "state_bytes": ("gauge", "Memory used by state"),
    "state_commit_seconds": ("gauge", "Time to commit the state, all partitions together"),
    "partition_skew_ratio": ("gauge", "Rows of the largest partition by those of the average one"),
    "backlog_messages": ("gauge", "Messages that the brokers had and the newest micro-batch did not take"),
    "last_batch_timestamp_seconds": ("gauge", "When the newest micro-batch was committed"),
    "last_heartbeat_timestamp_seconds": ("gauge", "When the newest heartbeat was committed"),
    "last_message_timestamp_seconds": ("gauge", "When the newest message was committed"),
}
"""By name without `PREFIX`: the kind of the metric, and its description."""
_GAUGES_PER_QUERY = {"batch_ms": "batch_seconds", "write_ms": "write_seconds", "backlog": "backlog_messages"}
_METRICS_WITHOUT_LABELS = {
    "started": "started_total",
    "heartbeats": "heartbeats_total",
    "evicted": "evicted_total",
    "quarantined": "quarantined_total",
    "live": "live_sessions",
    "state_rows": "state_rows",
    "state_bytes": "state_bytes",
    "state_entries": "state_entries",
    "keeps_up": "keeps_up",
    "state_commit_ms": "state_commit_seconds",
    "skew": "partition_skew_ratio",
}
_COUNTER_OF_ROWS_IN = {"sessionize": "events_total", "archive": "messages_total"}

Labels = tuple[tuple[str, str], ...]
"""Names and values of labels. None identifies a person or a device: all come from the code and the engine."""
_Sample = tuple[str, dict[str, str], float]


class Metrics:
    """Values from the records: counters are added up, gauges hold the newest value. One thread adds, others read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, dict[Labels, float]] = {name: {} for name in METRICS}

    def __call__(self, record: Record) -> None:
        samples = list(_samples(record))
        with self._lock:
            for name, labels, value in samples:
                values, key = self._values[name], tuple(labels.items())
                is_sum = METRICS[name][0] == "counter"
                values[key] = values.get(key, 0) + value if is_sum else value

    def values(self) -> dict[str, dict[Labels, float]]:
        """The current values by name and labels, for metrics that have any; a metric's labels have the same names."""
        with self._lock:
            return {name: dict(values) for name, values in self._values.items() if values}


def _samples(record: Record) -> Iterator[_Sample]:
    query = {"query": record["query"]}
    committed_s = datetime.fromisoformat(record["at"]).timestamp() + record["batch_ms"] / 1000
    yield "micro_batches_total", query, 1
    yield "last_batch_timestamp_seconds", query, committed_s
    if record["query"] in _COUNTER_OF_ROWS_IN:
        yield _COUNTER_OF_ROWS_IN[record["query"]], {}, record["rows_in"]
    if record.get("heartbeats"):
        yield "last_heartbeat_timestamp_seconds", {}, committed_s
    if record["query"] == "archive" and record["rows_in"]:
        yield "last_message_timestamp_seconds", {}, committed_s
    for field, value in record.items():
        if field in _METRICS_WITHOUT_LABELS:
            yield _METRICS_WITHOUT_LABELS[field], {}, _in_seconds(field, value)
        if field in _GAUGES_PER_QUERY:
            yield _GAUGES_PER_QUERY[field], query, _in_seconds(field, value)
    for event in ("start", "end"):
        if f"duplicate_{event}" in record:
            yield "repeated_total", {"event": event}, record[f"duplicate_{event}"]
    for reason, count in record.get("ends", {}).items():
        yield "ended_total", {"reason": reason}, count
    for phase, ms in record.get("phases_ms", {}).items():
        yield "phase_seconds", query | {"phase": phase}, ms / 1000
    yield from _delays(record)


def _delays(record: Record) -> Iterator[_Sample]:
    query = {"query": record["query"]}
    for share, quantile in _QUANTILES.items():
        if f"lateness_{share}_ms" in record:
            yield "heartbeat_lateness_seconds", {"quantile": quantile}, record[f"lateness_{share}_ms"] / 1000
        if f"latency_{share}_ms" in record:
            yield "latency_seconds", query | {"quantile": quantile}, record[f"latency_{share}_ms"] / 1000


def _in_seconds(field: str, value: float) -> float:
    return value / 1000 if field.endswith("_ms") else value
