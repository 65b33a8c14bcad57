"""What the monitor costs a micro-batch: `python -m tests.bench.monitor`; the same stream with and without it, in turn."""

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
from sessionization.spark.engine.session import STREAM_CONF
from sessionization.spark.input.ticks import tick_stream
from sessionization.spark.output.progress import BatchProgress, Percentiles
from tests.bench import load, processes

_LIVE, _GROUPS, _HEARTBEAT_MS = 2_000, 32, 30_000
_NOT_COUNTED = 10
_POLL_S = 0.1
_QUERY = "sessionize"
_DELAYS = Percentiles(500, 900, 1_000)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.monitor", description=__doc__)
    parser.add_argument("--rounds", type=int, default=4, help="after one that is not counted")
    parser.add_argument("--micro-batches", type=int, default=40, help="counted of each run, after some that are not")
    options = parser.parse_args()
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-Dfile.encoding=UTF-8")  # not those that suit a run of a minute
    more_ms = []
    with tempfile.TemporaryDirectory(prefix="monitor-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        spark = local_session(folder / "engine.log", STREAM_CONF)
        for round_ in range(options.rounds + 1):
            without, watched = (
                _cpu_ms(spark, folder / f"{round_}-{is_watched}", options.micro_batches, is_watched=is_watched)
                for is_watched in (False, True)
            )
            if round_:
                more_ms.append(watched - without)
                _say(f"{without:.1f} ms of CPU a micro-batch without, {watched:.1f} ms with the monitor")
        spark.stop()
    _say(f"{median(more_ms):.1f} ms more ({min(more_ms):.1f} to {max(more_ms):.1f})")
    return 0


def _cpu_ms(spark: SparkSession, folder: Path, count: int, *, is_watched: bool) -> float:
    """Of all processes, per micro-batch."""
    with ExitStack() as stack:
        tell = None
        if is_watched:
            outlets = [
                RecordConsumer("log", BatchLog(folder.with_suffix(".log")), _say),
                RecordConsumer("metrics", Metrics(), _say),
            ]
            tell = stack.enter_context(monitor_with(spark, outlets, _say))
        done = 0

        def sink(rows: DataFrame, batch_id: int) -> None:
            nonlocal done
            rows.write.format("noop").mode("append").save()
            if tell is not None:
                tell(BatchProgress(_QUERY, batch_id, wall_clock_ms(), 1, 1, _DELAYS, _DELAYS, 1, 1, 1, 0, 0, 0))
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
        while done < _NOT_COUNTED and not query.awaitTermination(_POLL_S):
            pass
        began, used = done, processes.cpu_s()
        while done < began + count and not query.awaitTermination(_POLL_S):
            pass
        used = processes.cpu_s() - used
        query.stop()
    return sum(used.values()) * 1_000 / (done - began)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
