"""Run one scenario in a Spark session, and measure it."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from sessionization.core.session_state import Rules, RulesInForce
from sessionization.event_map.reading import DEFAULT, package_map
from sessionization.spark import pipeline
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.input.ticks import tick_stream
from sessionization.spark.output.progress import BatchProgress
from sessionization.spark.output.sinks import ChangesSink, SinkContext
from sessionization.spark.tables.creation import create_tables, fit_to_events
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES
from tests.bench import load, processes
from tests.bench.scenario import YARDSTICK, Result, Scenario, Weighted

_HEARTBEAT_MS = {"starts": 3_600_000, "beats": 100, "pings": 3_600_000, "mix": 30_000}
_LATE_RETENTION_MS = 120_000  # after the warm-up, as many sessions are forgotten as are closed
_INACTIVITY_TIMEOUT_MS = 3_600_000
_TRIGGER = {"starts": "0 seconds", "beats": "0 seconds", "pings": "0 seconds", "mix": "1 second"}
_KINDS = {"started": "started", "heartbeat": "heartbeats", "ended": "ended"}
"""The field of a result for each kind of change."""
_QUANTILES = [step / 50 for step in range(51)]
_ACCURACY = 1_000
_POLL_S = 0.5
RECENT_TICKS = 20  # each poll makes JSON of all of them
_MEMORY_EVERY_S = 5
_FILLED_WITHIN_S = 900
_MB = 1024 * 1024


def run_scenario(spark: SparkSession, scenario: Scenario, folder: Path) -> Result:
    """Run the scenario with its files in `folder`, then stop the session.

    The measurement begins and ends with a micro-batch, so that a long one counts completely or not at all.
    """
    rules = Rules(
        heartbeat_ms=_HEARTBEAT_MS[scenario.load],
        late_retention_ms=_LATE_RETENTION_MS,
        inactivity_timeout_ms=_INACTIVITY_TIMEOUT_MS if scenario.has_activity else None,
    )
    progress: list[BatchProgress] = []
    query = _start_query(spark, _changes(spark, scenario, rules), scenario, folder, progress)
    ticks = _Ticks(query)
    began_ms = _wait_for_warm_up(ticks, scenario, progress)
    result = Result()
    cpu = processes.cpu_s()
    progress.clear()
    memory_mb = Counter[str]()
    memory_read_s = 0.0
    while True:
        if time.monotonic() >= memory_read_s + _MEMORY_EVERY_S:
            memory_read_s = time.monotonic()
            memory_mb |= processes.memory_mb()
        fresh = ticks.fresh()
        for tick in fresh:
            _add_tick(result, tick)
            if scenario.load == "pings":
                result.activities += tick["numInputRows"]
        if fresh and _end_ms(fresh[-1]) >= began_ms + scenario.seconds * 1_000:
            break
    result.seconds = (_end_ms(fresh[-1]) - began_ms) / 1_000
    result.cpu_s = {kind: used - cpu[kind] for kind, used in processes.cpu_s().items()}
    result.peak_mb = dict(memory_mb)
    done = list(progress)
    with suppress(PySparkException, Py4JError):  # a query that stops slowly has been measured already
        query.stop()
    if scenario.sink == "delta":
        _add_rows(result, done, TableLocation(folder / "warehouse").read(spark.read, SESSION_CHANGES))
    spark.stop()
    return result


class _Ticks:
    """The micro-batches of a query, each returned once, and the number of `started` changes in them."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._newest = -1
        self.started = 0

    def fresh(self) -> list[Any]:
        """Wait a moment; returns the micro-batches that ended since the last call, in their order."""
        _wait(self._query, _POLL_S)
        fresh = [tick for tick in self._query.recentProgress if tick["batchId"] > self._newest]
        if fresh:
            self._newest = fresh[-1]["batchId"]
        observed = (tick["observedMetrics"].get("changes") for tick in fresh)
        self.started += sum(counts["started"] for counts in observed if counts is not None)
        return fresh


def _wait_for_warm_up(ticks: _Ticks, scenario: Scenario, progress: list[BatchProgress]) -> int:
    """Wait until the warm-up is over and all sessions are live; returns the end of the last micro-batch."""
    target = 1 if scenario.load == "starts" else scenario.live
    began_s = time.monotonic()
    while True:
        fresh = ticks.fresh()
        passed_s = time.monotonic() - began_s
        started = ticks.started + sum(done.started or 0 for done in progress)
        if fresh and passed_s >= scenario.warm_up_s and started >= target:
            return _end_ms(fresh[-1])
        if passed_s > scenario.warm_up_s + _FILLED_WITHIN_S:
            msg = f"only {started:,} of {target:,} sessions were started within {passed_s:,.0f} s"
            raise RuntimeError(msg)


def _end_ms(tick: Any) -> int:
    began = datetime.fromisoformat(tick["timestamp"])
    return int(began.timestamp() * 1_000) + tick["durationMs"]["triggerExecution"]


def _changes(spark: SparkSession, scenario: Scenario, rules: Rules) -> DataFrame:
    """The changes of the product's operator in the layout of the scenario, or of the yardstick."""
    events = load.mix(spark, scenario, rules.heartbeat_ms) if scenario.load == "mix" else load.starts(spark, scenario)
    if scenario.layout != YARDSTICK:
        layout = StateLayout(scenario.device_groups, "", scenario.has_text_ids, scenario.labels)
        return pipeline.session_changes(
            events,
            tick_stream(spark),
            layout,
            RulesInForce(rules),
        )
    columns = events.select("device_id", "session_id", "is_start", "event_ms", "account_id", "platform", "ingested_ms")
    # PySpark offers no other way to call a Java class.
    return DataFrame(spark._jvm.Yardstick.changes(columns._jdf, rules.heartbeat_ms), spark)


def _start_query(
    spark: SparkSession, changes: DataFrame, scenario: Scenario, folder: Path, progress: list[BatchProgress]
) -> StreamingQuery:
    """Start the query with the sink `noop`, which counts changes, or with the product's sink into `session_changes`."""
    if scenario.sink == "delta":
        location = TableLocation(folder / "warehouse")
        layout = StateLayout(has_text_ids=scenario.has_text_ids)
        create_tables(spark, location, owner="bench", session_id_type=layout.session_id_type)
        fit_to_events(spark, location, package_map(DEFAULT), scenario.labels)
        context = SinkContext("sessionize", location, "bench", listeners=(progress.append,))
        writer = changes.writeStream.foreachBatch(ChangesSink(context, labels=scenario.labels))
    else:
        # The yardstick has the same column names.
        instants = [_instants(name) for name in ("due_ms", "ingested_ms")] if scenario.load == "mix" else []
        observed = changes.observe("changes", *_counts(), *instants, F.max("processed_ms").alias("processed_ms"))
        writer = observed.writeStream.format("noop").outputMode("update")
    return (
        writer.option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime=_TRIGGER[scenario.load])
        .start()
    )


def _counts() -> list[Column]:
    counts = [F.count_if(F.col("change") == kind).alias(name) for kind, name in _KINDS.items()]
    return [*counts, F.coalesce(F.sum("missed_beats"), F.lit(0)).alias("missed_beats")]


def _instants(since_ms: str) -> Column:
    """An aggregate: quantiles of the instants at which delays begin."""
    return F.percentile_approx(since_ms, _QUANTILES, _ACCURACY).alias(since_ms)


def _wait(query: StreamingQuery, seconds: float) -> None:
    if query.awaitTermination(seconds):
        msg = f"the query has ended: {query.exception()}"
        raise RuntimeError(msg)


def _add_tick(result: Result, tick: Any) -> None:
    took_ms = tick["durationMs"]["triggerExecution"]
    result.ticks_ms.append(took_ms)
    state = tick["stateOperators"][0]
    result.state_rows, result.state_mb = state["numRowsTotal"], state["memoryUsedBytes"] / _MB
    observed = tick["observedMetrics"].get("changes")
    if observed is not None and observed["processed_ms"] is not None:
        _add_changes(result, observed.asDict(), observed["processed_ms"] + took_ms)


def _add_rows(result: Result, progress: Iterable[BatchProgress], rows: DataFrame) -> None:
    """Add the changes of rows in the table, by the clocks of their micro-batches.

    Delays end when the table commits the rows. With the sink `noop` they end with the micro-batch, after its commit of
    the state.
    """
    done_ms = {done.processed_ms: done.processed_ms + done.batch_ms for done in progress}
    instants = ("processed", "due", "ingested")
    since = rows.select(
        "change", "missed_beats", *(F.unix_millis(f"{name}_at").alias(f"{name}_ms") for name in instants)
    )
    for row in since.groupBy("processed_ms").agg(*_counts(), _instants("due_ms"), _instants("ingested_ms")).collect():
        if row.processed_ms in done_ms:
            _add_changes(result, row.asDict(), done_ms[row.processed_ms])


def _add_changes(result: Result, counts: dict[str, Any], done_ms: int) -> None:
    for name in (*_KINDS.values(), "missed_beats"):
        setattr(result, name, getattr(result, name) + counts[name])
    result.late += _delays(counts.get("due_ms"), done_ms, counts["heartbeats"])
    result.waited += _delays(counts.get("ingested_ms"), done_ms, counts["started"] + counts["ended"])


def _delays(since_ms: Sequence[int] | None, done_ms: int, rows: int) -> Weighted:
    return [(done_ms - instant_ms, rows) for instant_ms in since_ms or ()]
