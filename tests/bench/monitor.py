"""Measure the cost of the monitor per micro-batch: `python -m tests.bench.monitor`.

The same stream runs with and without the monitor, in turn.
"""

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.core.session_state import Rules, RulesInForce
from sessionization.local_engine.local_session import local_session
from sessionization.monitor.batch_log import BatchLog
from sessionization.monitor.batch_monitor import monitor_with
from sessionization.monitor.metrics import Metrics
from sessionization.monitor.record_consumer import RecordConsumer
from sessionization.spark import pipeline
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.engine.job_conf import OPEN_SOURCE_CONF
from sessionization.spark.input.ticks import tick_stream
from sessionization.spark.output.progress import BatchProgress, Percentiles
from tests.bench import load, processes
from tests.bench.scenario import LONG_LIVED_JAVA_OPTIONS

_LIVE, _GROUPS, _HEARTBEAT_MS = 2_000, 32, 30_000
_WARM_UP_BATCHES = 10
_POLL_S = 0.1
_QUERY = "sessionize"
_DELAYS = Percentiles(500, 900, 1_000)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.monitor", description=__doc__)
    parser.add_argument("--rounds", type=int, default=4, help="rounds after a first one that is not counted")
    parser.add_argument(
        "--micro-batches", type=int, default=40, help="micro-batches to measure in each run, after its warm-up"
    )
    options = parser.parse_args()
    os.environ.setdefault("JAVA_TOOL_OPTIONS", LONG_LIVED_JAVA_OPTIONS)
    extra_ms = []
    with tempfile.TemporaryDirectory(prefix="monitor-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        spark = local_session(folder / "engine.log", OPEN_SOURCE_CONF)
        for round_ in range(options.rounds + 1):
            without, watched = (
                _cpu_ms(spark, folder / f"{round_}-{is_watched}", options.micro_batches, is_watched=is_watched)
                for is_watched in (False, True)
            )
            if round_:
                extra_ms.append(watched - without)
                _print(f"{without:.1f} ms of CPU a micro-batch without, {watched:.1f} ms with the monitor")
        spark.stop()
    _print(f"{median(extra_ms):.1f} ms more ({min(extra_ms):.1f} to {max(extra_ms):.1f})")
    return 0


def _cpu_ms(spark: SparkSession, folder: Path, count: int, *, is_watched: bool) -> float:
    """CPU milliseconds of all processes per micro-batch."""
    with ExitStack() as stack:
        report = None
        if is_watched:
            consumers = [
                RecordConsumer("log", BatchLog(folder.with_suffix(".log")), _print),
                RecordConsumer("metrics", Metrics(_HEARTBEAT_MS), _print),
            ]
            report = stack.enter_context(monitor_with(spark, consumers, _print))
        done = 0

        def sink(rows: DataFrame, batch_id: int) -> None:
            nonlocal done
            rows.write.format("noop").mode("append").save()
            if report is not None:
                report(BatchProgress(_QUERY, batch_id, wall_clock_ms(), 1, 1, _DELAYS, _DELAYS, 1, 1, 1, 0, 0, 0))
            done += 1

        events = load.mix(spark, _LIVE, _HEARTBEAT_MS)
        changes = pipeline.sessionize(events, tick_stream(spark), StateLayout(_GROUPS), RulesInForce(Rules()))
        query = (
            changes.writeStream.foreachBatch(sink)
            .queryName(_QUERY)
            .option("checkpointLocation", str(folder))
            .trigger(processingTime="0 seconds")
            .start()
        )
        while done < _WARM_UP_BATCHES and not query.awaitTermination(_POLL_S):
            pass
        began, used = done, processes.cpu_s()
        while done < began + count and not query.awaitTermination(_POLL_S):
            pass
        used = processes.cpu_s() - used
        query.stop()
    return sum(used.values()) * 1_000 / (done - began)


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
