"""Measure how fresh the tables are under a small load: `python -m tests.bench.freshness --live 2000 --rate 100`.

The job reads files and writes Delta tables with default options, and the simulator plays messages in real time. The
figures are those of `stream_progress` between `--from-s` and `--to-s`, weighted by rows.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench.report import say
from tests.bench.scenario import LONG_LIVED_JAVA_OPTIONS, Delays
from tests.support.delta import read_table
from tests.support.job import ROOT, SIMULATE, Job, command, environment

_DELAYS = {
    "event to session_changes": ("sessionize", "latency", "rows_in"),
    "lateness of heartbeats": ("sessionize", "lateness", "heartbeats"),
    "event to sessions": ("rollup", "latency", "rows_in"),
    "event to raw_events": ("archive", "latency", "rows_in"),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.freshness", description=__doc__)
    parser.add_argument("--live", type=int, default=2_000)
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--from-s", type=int, default=120)
    parser.add_argument("--to-s", type=int, default=360)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--library", type=Path, nargs="+", default=[ROOT / "lib"], help="versions to measure in turn")
    options, job_options = parser.parse_known_args()
    for _ in range(options.repeats):
        for library in options.library:
            folder = Path(tempfile.mkdtemp(prefix="freshness-"))
            say(f"{library}:")
            _report(_run(folder, library, options, job_options), options)
            shutil.rmtree(folder)
    return 0


def _run(folder: Path, library: Path, options: argparse.Namespace, job_options: list[str]) -> list[dict[str, Any]]:
    """The rows of `stream_progress` of one run."""
    job = Job(folder, *job_options)
    job.library = library
    load = (f"--live={options.live}", f"--rate={options.rate}", f"--duration={options.to_s + 30}s")
    words = command(f"--output={job.input}", *load, entry=(SIMULATE,))
    os.environ.setdefault("JAVA_TOOL_OPTIONS", LONG_LIVED_JAVA_OPTIONS)
    simulator = subprocess.Popen(words, env=environment(), stderr=subprocess.DEVNULL)
    try:
        job.start()
        time.sleep(options.to_s)
        assert job.terminate() == 0, job.output_lines()[-3:]
    finally:
        simulator.kill()
        simulator.wait()
        job.kill_if_running()
    return read_table(job.warehouse / "stream_progress")


def _report(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    began = min(row["processed_ms"] for row in rows)
    first, last = (began + seconds * 1_000 for seconds in (options.from_s, options.to_s))
    rows = [row for row in rows if first <= row["processed_ms"] <= last]
    for name, (query, delay, weight) in _DELAYS.items():
        of_query = [row for row in rows if row["query"] == query and row[weight] and row[f"{delay}_p50_ms"] is not None]
        by_p50, by_p99 = (
            Delays.of((row[f"{delay}_{share}_ms"], row[weight]) for row in of_query) for share in ("p50", "p99")
        )
        if by_p50 and by_p99:
            say(f"  {name}: p50 {by_p50.p50_ms:,} ms, p99 {by_p99.p99_ms:,} ms")
    for query in ("sessionize", "archive", "rollup"):
        took = [row["batch_ms"] for row in rows if row["query"] == query and row["rows_in"]]
        if took:
            say(f"  {query}: {len(took)} micro-batches, median {statistics.median(took):,.0f} ms, max {max(took):,} ms")


if __name__ == "__main__":
    sys.exit(main())
