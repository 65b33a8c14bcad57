"""Pair the sink's and the engine's report of every micro-batch, and pass both on without delaying the stream."""

import contextlib
import importlib.util
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryProgress

from sessionization.errors import ConfigurationError
from sessionization.monitor.batch_log import BatchLog
from sessionization.monitor.metrics import PATH, Metrics
from sessionization.monitor.record_consumer import RecordConsumer
from sessionization.optional_packages import how_to_install
from sessionization.say import Say
from sessionization.spark.output.engine_listener import EngineListener
from sessionization.spark.output.progress import BatchProgress

MOST_UNPAIRED = 10
"""How many micro-batches of a query wait for the engine's report; beyond that the oldest is sent without one."""
LAST_REPORT_WITHIN_S = 1.0


class BatchMonitor(EngineListener):
    """Pairs a sink's counts with the engine's report of the same micro-batch, and sends both to the outlets.

    The engine's report comes later and on another thread. The engine drops reports when it has too many to send. So
    every micro-batch is sent once, in its query's order, and without the engine's report if that does not come.
    """

    def __init__(self, outlets: list[RecordConsumer]) -> None:
        self._outlets = outlets
        self._lock = threading.Lock()
        self._paired = threading.Condition(self._lock)
        self._unpaired: dict[str, dict[int, BatchProgress]] = {}

    def add(self, progress: BatchProgress) -> None:
        """Take a sink's counts. Queries call this on their own threads; it never waits for an outlet."""
        with self._lock:
            unpaired = self._unpaired.setdefault(progress.query, {})
            unpaired[progress.batch_id] = progress
            if len(unpaired) > MOST_UNPAIRED:
                self._send(unpaired, next(iter(unpaired)), None)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        engine = event.progress
        with self._lock:
            unpaired = self._unpaired.get(engine.name or "", {})
            if engine.batchId not in unpaired:  # a query that is not monitored, or a report that came too late
                return
            for batch_id in [batch_id for batch_id in unpaired if batch_id < engine.batchId]:
                self._send(unpaired, batch_id, None)
            self._send(unpaired, engine.batchId, engine)
            self._paired.notify_all()

    def close(self) -> None:
        """Wait up to `LAST_REPORT_WITHIN_S` for the engine's last reports, then send the rest without them."""
        with self._lock:
            self._paired.wait_for(lambda: not any(self._unpaired.values()), LAST_REPORT_WITHIN_S)
            for unpaired in self._unpaired.values():
                for batch_id in list(unpaired):
                    self._send(unpaired, batch_id, None)

    def _send(self, unpaired: dict[int, BatchProgress], batch_id: int, engine: StreamingQueryProgress | None) -> None:
        progress = unpaired.pop(batch_id)
        for outlet in self._outlets:
            outlet.put(progress, engine)


def check_metrics_package(metrics_port: int | None) -> None:
    """Raises `ConfigurationError` where metrics are wanted and the package that serves them is not installed."""
    if metrics_port is not None and importlib.util.find_spec("prometheus_client") is None:
        msg = f"--metrics-port needs the package prometheus-client: {how_to_install('metrics')}, or leave it out"
        raise ConfigurationError(msg)


@contextlib.contextmanager
def monitor_batches(
    spark: SparkSession, batch_log: Path | None, metrics_at: tuple[str, int] | None, heartbeat_ms: int, say: Say
) -> Iterator[Callable[[BatchProgress], None]]:
    """Give a function that logs each micro-batch while the queries run and, if wanted, counts it in metrics.

    A failure here neither ends nor delays the stream; `say` reports it.

    Args:
        spark: the session of the queries.
        batch_log: the file of the batch log; None for the process's stderr.
        metrics_at: host and port to serve the metrics at, or None for no metrics. `check_metrics_package` must have
            accepted the port.
        heartbeat_ms: the heartbeat interval, which is a metric.
        say: prints a line for a person.
    """
    with contextlib.ExitStack() as stack:
        outlets = [RecordConsumer(f"the batch log ({batch_log or 'stderr'})", BatchLog(batch_log), say)]
        if metrics_at is not None:
            from sessionization.monitor.prometheus import serve_metrics

            metrics, (host, port) = Metrics(heartbeat_ms), metrics_at
            try:
                port = stack.enter_context(serve_metrics(host, port, metrics))
                say(f"metrics for Prometheus on port {port} of {host}, {PATH}")
            except (OSError, UnicodeError) as error:  # UnicodeError: a host name that cannot be encoded
                cause = error.strerror if isinstance(error, OSError) else error
                say(f"--metrics-port {port} of {host} cannot be served ({cause}): the stream goes on without")
            else:
                outlets.append(RecordConsumer("the metrics", metrics, say))
        with monitor_with(spark, outlets, say) as add:
            yield add


@contextlib.contextmanager
def monitor_with(
    spark: SparkSession, outlets: list[RecordConsumer], say: Say
) -> Iterator[Callable[[BatchProgress], None]]:
    """Do as `monitor_batches`, with outlets that the caller gives; they are closed at the end."""
    monitor = BatchMonitor(outlets)
    try:
        spark.streams.addListener(monitor)
    except (PySparkException, Py4JError) as error:  # for example a session that allows no listeners in Python
        say(f"the engine's own figures are missing from the batch log: {type(error).__name__}")
    try:
        yield monitor.add
    finally:
        monitor.close()
        with contextlib.suppress(Exception):  # other code reports a dead engine
            spark.streams.removeListener(monitor)
        for outlet in outlets:
            outlet.close()
