"""The newest figures of the queries in Prometheus's text format, served on a port."""

import contextlib
import socketserver
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler

from sessionization.monitor.record import Record

PATH = "/metrics"
PREFIX = "sessionization_"
_CLIENT_S = 5
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
    "latency_seconds": ("gauge", "From ingest to commit, of the newest micro-batch with events"),
    "batch_seconds": ("gauge", "From the newest micro-batch's clock to the commit of its rows"),
    "write_seconds": ("gauge", "How long the tables took to take the newest micro-batch's rows"),
    "phase_seconds": ("gauge", "Time of the newest micro-batch by the engine's phase"),
    "state_rows": ("gauge", "Rows in state"),
    "state_bytes": ("gauge", "Memory used by state"),
    "state_commit_seconds": ("gauge", "Time to commit the state, all partitions together"),
    "partition_skew_ratio": ("gauge", "Rows of the largest partition by those of the average one"),
    "backlog_messages": ("gauge", "Messages that the brokers had and the newest micro-batch did not take"),
    "last_batch_timestamp_seconds": ("gauge", "When the newest micro-batch was committed"),
    "last_heartbeat_timestamp_seconds": ("gauge", "When the newest heartbeat was committed"),
    "last_message_timestamp_seconds": ("gauge", "When the newest message was committed"),
}
"""By name after `PREFIX`: the kind of metric, and what it says."""
_OF_QUERY = {"batch_ms": "batch_seconds", "write_ms": "write_seconds", "backlog": "backlog_messages"}
_OF_ALL = {
    "started": "started_total",
    "heartbeats": "heartbeats_total",
    "evicted": "evicted_total",
    "quarantined": "quarantined_total",
    "live": "live_sessions",
    "state_rows": "state_rows",
    "state_bytes": "state_bytes",
    "state_commit_ms": "state_commit_seconds",
    "skew": "partition_skew_ratio",
}
_ROWS_IN = {"sessionize": "events_total", "archive": "messages_total"}

_Labels = tuple[tuple[str, str], ...]
_Sample = tuple[str, dict[str, str], float]


class Metrics:
    """What the records say: counters are added up, of gauges the newest stands. One thread adds, others read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, dict[_Labels, float]] = {name: {} for name in METRICS}

    def __call__(self, record: Record) -> None:
        samples = list(_samples(record))
        with self._lock:
            for name, labels, value in samples:
                values, key = self._values[name], tuple(labels.items())
                is_sum = METRICS[name][0] == "counter"
                values[key] = values.get(key, 0) + value if is_sum else value

    def text(self) -> str:
        """All metrics that have a value, in the text format 0.0.4."""
        lines: list[str] = []
        with self._lock:
            for name, values in self._values.items():
                if values:
                    kind, about = METRICS[name]
                    lines += [f"# HELP {PREFIX}{name} {about}", f"# TYPE {PREFIX}{name} {kind}"]
                    lines += [f"{PREFIX}{name}{_braced(labels)} {value!r}" for labels, value in values.items()]
        return "".join(f"{line}\n" for line in lines)


def _samples(record: Record) -> Iterator[_Sample]:
    query = {"query": record["query"]}
    done_s = datetime.fromisoformat(record["at"]).timestamp() + record["batch_ms"] / 1000
    yield "micro_batches_total", query, 1
    yield "last_batch_timestamp_seconds", query, done_s
    if record["query"] in _ROWS_IN:
        yield _ROWS_IN[record["query"]], {}, record["rows_in"]
    if record.get("heartbeats"):
        yield "last_heartbeat_timestamp_seconds", {}, done_s
    if record["query"] == "archive" and record["rows_in"]:
        yield "last_message_timestamp_seconds", {}, done_s
    for field, value in record.items():
        if field in _OF_ALL:
            yield _OF_ALL[field], {}, _in_seconds(field, value)
        if field in _OF_QUERY:
            yield _OF_QUERY[field], query, _in_seconds(field, value)
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


def _braced(labels: _Labels) -> str:
    # No label's value is a person's or a device's: all are words of the code and the engine, without quotes.
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels) + "}" if labels else ""


class _Server(socketserver.ThreadingTCPServer):
    """Each client has a thread of its own, which a slow one keeps for `_CLIENT_S` seconds of silence at most."""

    allow_reuse_address = True
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away in the middle asks again."""


@contextlib.contextmanager
def served(port: int, text: Callable[[], str]) -> Iterator[int]:
    """Answer GET /metrics with `text()` on every interface, on threads of their own; gives the port.

    Raises `OSError` where the port is taken. Port 0 takes one that is free.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = _CLIENT_S

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != PATH:
                self.send_error(HTTPStatus.NOT_FOUND, f"only {PATH} is here")
                return
            body = text().encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nobody reads who asked."""

    with _Server(("", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
