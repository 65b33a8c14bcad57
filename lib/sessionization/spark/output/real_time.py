"""`--mode real-time`: its requirements, its topic writer and its batch reports (docs/adr/0021-real-time-mode.md)."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

from sessionization.databricks import on_databricks
from sessionization.errors import ConfigurationError
from sessionization.private_spark import ReportListener
from sessionization.spark.checkpoint.folder import SESSIONIZE
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.output import changes_topic
from sessionization.spark.output.progress import (
    BatchListener,
    BatchProgress,
    Percentiles,
    notify_listeners,
)

SWITCH = "spark.databricks.streaming.realTimeMode.enabled"
"""The cluster setting that switches on Real-Time Mode; `real_time_enabled` in the bundle."""


def check_runtime() -> None:
    """Raises `ConfigurationError`, with the cause, where stateful Python operators cannot use Real-Time Mode."""
    if not on_databricks():
        missing = "which Databricks alone has: run it there (docs/deploy.md)"
    elif SparkSession.builder.getOrCreate().conf.get(SWITCH, None) != "true":
        missing = (
            f"which this cluster has not switched on: start it with {SWITCH}=true (real_time_enabled in the bundle)"
        )
    else:
        return
    msg = f"--mode real-time needs Real-Time Mode for stateful Python, {missing}, or leave --mode out"
    raise ConfigurationError(msg)


def topic_writer(changes: DataFrame, options: Mapping[str, str], output_topic: str, batch_ms: int) -> DataStreamWriter:
    """A writer that sends each change to the topic at once, by Spark's own sink; a repeated batch sends them twice.

    Args:
        changes: rows of `session_changes`, streaming.
        options: of the Kafka client, including the brokers.
        output_topic: the topic's name.
        batch_ms: how long a batch lasts; at its end the engine saves state and offsets.
    """
    messages, duration = changes_topic.to_messages(changes).writeStream, f"{batch_ms} milliseconds"
    writer: DataStreamWriter = messages.trigger(realTime=duration)  # type: ignore[call-overload] # no overload has it
    return writer.format("kafka").options(**options).option("topic", output_topic).outputMode("update")


@contextlib.contextmanager
def report_engine_batches(
    spark: SparkSession,
    store_row: Callable[[BatchProgress], None],
    listeners: Iterable[BatchListener],
    layout: StateLayout,
) -> Iterator[None]:
    """Report every batch of the sessionize query from the engine's events: in real-time mode no `sinks.Sink` runs."""
    listener = _EngineBatchReporter(store_row, listeners, layout)
    spark.streams.addListener(listener)
    try:
        yield
    finally:
        with contextlib.suppress(Exception):  # another part reports a dead engine
            spark.streams.removeListener(listener)


class _EngineBatchReporter(ReportListener):
    def __init__(
        self, store_row: Callable[[BatchProgress], None], listeners: Iterable[BatchListener], layout: StateLayout
    ) -> None:
        self._store_row, self._listeners, self._layout = store_row, listeners, layout

    def on_report(self, report: dict[str, Any]) -> None:
        if report["name"] == SESSIONIZE:
            progress = _batch_progress(report, self._layout)
            self._store_row(progress)
            notify_listeners(self._listeners, progress)


def _batch_progress(report: dict[str, Any], layout: StateLayout) -> BatchProgress:
    """A batch as the engine reports it: without counts of changes or delays, and with invalid messages in `rows_in`."""
    operator = (report["stateOperators"] or [{}])[0]
    state_rows = operator.get("numRowsTotal")
    return BatchProgress(
        query=SESSIONIZE,
        batch_id=report["batchId"],
        processed_ms=round(datetime.fromisoformat(report["timestamp"]).timestamp() * 1_000),
        rows_in=report["numInputRows"],
        batch_ms=report["durationMs"].get("triggerExecution", 0),
        latency=Percentiles(None, None, None),
        state_rows=state_rows,
        state_bytes=operator.get("memoryUsedBytes"),
        state_entries=state_rows if layout.device_groups is None else None,
    )
