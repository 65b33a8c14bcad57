"""Hear of every micro-batch from its sink and from the engine, and tell both together, off the stream's way."""

import contextlib
import importlib.util
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from sessionization.errors import ConfigurationError
from sessionization.monitor.batch_log import BatchLog
from sessionization.monitor.metrics import PATH, Metrics
from sessionization.monitor.record_consumer import RecordConsumer
from sessionization.optional_packages import how_to_install
from sessionization.say import Say
from sessionization.spark.output.progress import BatchProgress

MOST_UNPAIRED = 10
"""Micro-batches of a query that wait for the engine's word; the oldest beyond them is told without it."""
LAST_WORD_WITHIN_S = 1.0


class BatchMonitor(StreamingQueryListener):
    """Pairs what a sink counted with what the engine says of the same micro-batch, and hands both to the outlets.

    The engine's word comes later, on another thread, and is lost where the engine has too much to say. So every
    micro-batch is told once, in its query's order, and one whose word does not come is told without it.
    """

    def __init__(self, outlets: list[RecordConsumer]) -> None:
        self._outlets = outlets
        self._lock = threading.Lock()
        self._paired = threading.Condition(self._lock)
        self._unpaired: dict[str, dict[int, BatchProgress]] = {}

    def add(self, progress: BatchProgress) -> None:
        """Take what a sink counted; called on the queries' threads, never waits for an outlet."""
        with self._lock:
            unpaired = self._unpaired.setdefault(progress.query, {})
            unpaired[progress.batch_id] = progress
            if len(unpaired) > MOST_UNPAIRED:
                self._tell(unpaired, next(iter(unpaired)), None)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        engine = event.progress
        with self._lock:
            unpaired = self._unpaired.get(engine.name or "", {})
            if engine.batchId not in unpaired:  # another's query, or a word that came too late
                return
            for batch_id in [batch_id for batch_id in unpaired if batch_id < engine.batchId]:
                self._tell(unpaired, batch_id, None)
            self._tell(unpaired, engine.batchId, engine)
            self._paired.notify_all()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing to tell yet."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """The job itself says so."""

    def close(self) -> None:
        """Wait a moment for the engine's last words, then tell the rest without them."""
        with self._lock:
            self._paired.wait_for(lambda: not any(self._unpaired.values()), LAST_WORD_WITHIN_S)
            for unpaired in self._unpaired.values():
                for batch_id in list(unpaired):
                    self._tell(unpaired, batch_id, None)

    def _tell(self, unpaired: dict[int, BatchProgress], batch_id: int, engine: StreamingQueryProgress | None) -> None:
        progress = unpaired.pop(batch_id)
        for outlet in self._outlets:
            outlet.put(progress, engine)


def check_metrics_package(metrics_port: int | None) -> None:
    """Raises `ConfigurationError` where metrics are asked for and what serves them is not installed."""
    if metrics_port is not None and importlib.util.find_spec("prometheus_client") is None:
        msg = f"--metrics-port needs the package prometheus-client: {how_to_install('metrics')}, or leave it out"
        raise ConfigurationError(msg)


@contextlib.contextmanager
def monitor_batches(
    spark: SparkSession, batch_log: Path | None, metrics_at: tuple[str, int] | None, say: Say
) -> Iterator[Callable[[BatchProgress], None]]:
    """What to tell each micro-batch to while the queries run: it is logged, and counted for Prometheus where asked.

    Nothing that goes wrong here ends or delays the stream; it is said.

    Args:
        spark: the session of the queries.
        batch_log: the file of the batch log; None for the process's stderr.
        metrics_at: host and port to serve the metrics at, where `check_metrics_package` lets the port pass; None for nowhere.
        say: what gets a line for a person.
    """
    with contextlib.ExitStack() as stack:
        outlets = [RecordConsumer(f"the batch log ({batch_log or 'stderr'})", BatchLog(batch_log), say)]
        if metrics_at is not None:
            from sessionization.monitor.prometheus import serve_metrics

            metrics, (host, port) = Metrics(), metrics_at
            try:
                port = stack.enter_context(serve_metrics(host, port, metrics))
                say(f"metrics for Prometheus on port {port} of {host}, {PATH}")
            except (OSError, UnicodeError) as error:  # a host name may be none that can be encoded
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
    """As `monitor_batches`, with outlets of the caller's, which are closed in the end."""
    monitor = BatchMonitor(outlets)
    try:
        spark.streams.addListener(monitor)
    except (PySparkException, Py4JError) as error:  # such as a session that allows no listeners in Python
        say(f"the engine's own figures are missing from the batch log: {type(error).__name__}")
    try:
        yield monitor.add
    finally:
        monitor.close()
        with contextlib.suppress(Exception):  # an engine that is dead is told elsewhere
            spark.streams.removeListener(monitor)
        for outlet in outlets:
            outlet.close()
