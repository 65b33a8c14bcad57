"""One scenario in this process: `python -m tests.bench.run FILE` prints what it has measured as JSON."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from sessionization.core.state import Rules
from sessionization.local.jars import jar_paths
from sessionization.local.session import local_session
from sessionization.spark import pipeline
from sessionization.spark.layout import Layout
from sessionization.spark.processor import RulesInForce
from sessionization.spark.progress import Progress
from sessionization.spark.session import STREAM_CONF
from sessionization.spark.sinks import ChangesSink, StateSize
from sessionization.spark.source import ticks
from sessionization.spark.table_home import TableHome, create_tables
from sessionization.spark.tables import SESSION_CHANGES
from tests.bench import calls, load, processes
from tests.bench.scenario import YARDSTICK, Result, Scenario, Weighted

LONG_LIVED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""As on a cluster: code is generated and compiled."""

_YARDSTICK = Path(__file__).with_name("Yardstick.java")
_HEARTBEAT_MS = {"starts": 3_600_000, "beats": 1_000, "mix": 30_000}
_KINDS = {"started": "started", "heartbeat": "heartbeats", "ended": "ended"}
"""Fields of a result by kind of change."""
_QUANTILES = [step / 50 for step in range(51)]
_ACCURACY = 1_000
_POLL_S = 1
_WEIGHED_EVERY = 5
_MB = 1024 * 1024


def main() -> int:
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-Dfile.encoding=UTF-8")  # not those that suit a run of a minute
    scenario = Scenario(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        result = measured(scenario, Path(folder))
    sys.stdout.write(f"{json.dumps(asdict(result))}\n")
    return 0


def measured(scenario: Scenario, folder: Path) -> Result:
    """Run the scenario in a new Spark session of this process, its files below `folder`."""
    made = calls.counter()
    spark = _session(scenario, folder)
    rules = Rules(heartbeat_ms=_HEARTBEAT_MS[scenario.load])
    progress: list[Progress] = []
    query = _started(spark, _changes(spark, scenario, rules), scenario, folder, progress)
    _wait(query, scenario.warm_up_s)
    result = Result()
    began_s, cpu_before, made_before = time.monotonic(), processes.cpu_s(), made()
    newest = max((tick["batchId"] for tick in query.recentProgress), default=-1)
    progress.clear()
    peak = Counter[str]()
    polls = 0
    while time.monotonic() < began_s + scenario.seconds:
        _wait(query, _POLL_S)
        if polls % _WEIGHED_EVERY == 0:
            peak |= processes.memory_mb()
        polls += 1
        for tick in query.recentProgress:
            if tick["batchId"] > newest:
                newest = tick["batchId"]
                _add_tick(result, tick)
    result.seconds = time.monotonic() - began_s
    result.cpu_s = dict(processes.cpu_s() - cpu_before)
    result.peak_mb = dict(peak)
    if made_before is not None:
        result.calls = made() - made_before
    query.stop()
    if scenario.sink == "delta":
        _add_rows(result, progress, TableHome(folder / "warehouse").read(spark.read, SESSION_CHANGES))
    spark.stop()
    result.checkpoint_mb = _size_mb(folder / "checkpoint")
    return result


def _session(scenario: Scenario, folder: Path) -> SparkSession:
    """A session whose JVM knows the yardstick's classes."""
    class_path = list(map(str, jar_paths("spark")))
    if scenario.layout == YARDSTICK:
        class_path.append(str(_compiled(folder / "classes")))
    settings = LONG_LIVED | {
        "spark.driver.extraClassPath": os.pathsep.join(class_path),
        "spark.driver.memory": scenario.heap,
    }
    given = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{given} pyspark-shell"
    return local_session(folder / "engine.log", STREAM_CONF)


def _compiled(classes: Path) -> Path:
    jars = Path(pyspark.__file__).parent / "jars"
    try:
        subprocess.run(["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), str(_YARDSTICK)], check=True)
    except FileNotFoundError:
        msg = "the yardstick needs javac on the PATH: install a JDK, version 17 or 21"
        raise SystemExit(msg) from None
    return classes


def _changes(spark: SparkSession, scenario: Scenario, rules: Rules) -> DataFrame:
    """The changes by the product's operator in a layout, or by the yardstick."""
    if scenario.load == "mix":
        events = load.mix(spark, scenario.live, rules.heartbeat_ms)
    else:
        events = load.starts(spark, scenario.per_batch, scenario.live if scenario.load == "beats" else None)
    if scenario.layout != YARDSTICK:
        return pipeline.sessionize(events, ticks(spark), Layout(scenario.device_groups), RulesInForce(rules))
    said = events.select("device_id", "session_id", "is_start", "event_ms", "account_id", "platform", "ingested_ms")
    # PySpark has no other way to a class of one's own.
    return DataFrame(spark._jvm.Yardstick.changes(said._jdf, rules.heartbeat_ms), spark)


def _started(
    spark: SparkSession, changes: DataFrame, scenario: Scenario, folder: Path, progress: list[Progress]
) -> StreamingQuery:
    """The query into nowhere, where every micro-batch counts its changes, or into `session_changes` as the product does."""
    if scenario.sink == "delta":
        home = TableHome(folder / "warehouse")
        create_tables(spark, home, owner="bench", may_create=True)
        sink = ChangesSink(home, "sessionize", "bench", lambda _: None, progress.append, StateSize)
        writer = changes.writeStream.foreachBatch(sink)
    else:
        counts = [F.count_if(F.col("change") == kind).alias(name) for kind, name in _KINDS.items()]
        # The yardstick knows them by the same names.
        instants = [_instants(name) for name in ("due_ms", "ingested_ms")] if scenario.load == "mix" else []
        seen = changes.observe("changes", *counts, *instants, F.max("processed_ms").alias("processed_ms"))
        writer = seen.writeStream.format("noop").outputMode("update")
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(processingTime="1 second").start()


def _instants(since_ms: str) -> Any:
    """An aggregate: the shape of the instants that delays begin at."""
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


def _add_rows(result: Result, progress: Iterable[Progress], rows: DataFrame) -> None:
    """The same, of rows in the table, by the clocks of their micro-batches."""
    done_ms = {done.processed_ms: done.processed_ms + done.batch_ms for done in progress}
    instants = ("processed", "due", "ingested")
    since = rows.select("change", *(F.unix_millis(f"{name}_at").alias(f"{name}_ms") for name in instants))
    counts = (F.count_if(F.col("change") == kind).alias(name) for kind, name in _KINDS.items())
    for row in since.groupBy("processed_ms").agg(*counts, _instants("due_ms"), _instants("ingested_ms")).collect():
        if row.processed_ms in done_ms:
            _add_changes(result, row.asDict(), done_ms[row.processed_ms])


def _add_changes(result: Result, counts: dict[str, Any], done_ms: int) -> None:
    for name in _KINDS.values():
        setattr(result, name, getattr(result, name) + counts[name])
    result.late += _delays(counts.get("due_ms"), done_ms, counts["heartbeats"])
    result.waited += _delays(counts.get("ingested_ms"), done_ms, counts["started"] + counts["ended"])


def _delays(since_ms: Sequence[int] | None, done_ms: int, rows: int) -> Weighted:
    return [(done_ms - instant_ms, rows) for instant_ms in since_ms or ()]


def _size_mb(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / _MB


if __name__ == "__main__":
    sys.exit(main())
