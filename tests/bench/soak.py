"""Hold a load for some minutes, and report its cost and how fresh the tables are: `python -m tests.bench.soak`.

Options that are not listed here are the job's. They must not change the rules, because the reference has the defaults.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from sessionization.core.session_state import Rules
from sessionization_laptop.broker import Broker
from tests.bench import processes
from tests.bench.report import say
from tests.bench.scenario import LONG_LIVED_JAVA_OPTIONS, Delays
from tests.bench.serving import Serving
from tests.support.accounts import unaccounted
from tests.support.default_streams import STREAMS
from tests.support.delta import live_files
from tests.support.event_maps import WITH_PINGS
from tests.support.job import QUERIES, ROOT, SIMULATE, Job, command, environment
from tests.support.oracle import build_oracle
from tests.support.oracle_columns import COLUMNS
from tests.support.tables import differences, read_tables
from tests.support.topics import Topics
from tests.support.wire import DEFAULT

PARTITIONS = 4
_SAMPLES = 60
_SHOWN = 20
_CATCH_UP_S = 1_800
_MAP = "with_pings.yml"
_INACTIVITY_TIMEOUT_MS = 600_000
_MB = 1024 * 1024
_DELAYS = {
    "event to session_changes": ("sessionize", "latency", "rows_in"),
    "lateness of heartbeats": ("sessionize", "lateness", "heartbeats"),
    "event to sessions": ("rollup", "latency", "rows_in"),
    "event to raw_events": ("archive", "latency", "rows_in"),
}
"""The query, the delay, and the number of rows that it is of, in `stream_progress`."""
Samples = dict[str, list[float]]


def main() -> int:
    """Exits with code 1 if the tables differ from the reference on the same input; the folder then stays."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.soak", description=__doc__)
    parser.add_argument("--source", choices=["files", "kafka"], default="kafka")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--rate", type=float, default=2_000, help="events per second, before dirt")
    parser.add_argument("--live", type=int, default=50_000, help="live sessions to hold")
    parser.add_argument("--dirt", type=float, default=0.02)
    parser.add_argument(
        "--ping", help="how often a session has a sign of life, as 1m; the job then has an inactivity timeout"
    )
    parser.add_argument("--serving", action="store_true", help="with the job serve_sessions, and a Postgres of its own")
    parser.add_argument("--device-groups", type=int, help="as the job's option")
    parser.add_argument("--conf", action="append", default=[], help="a setting of Spark, name=value; may be repeated")
    parser.add_argument("--warm-up-s", type=float, default=60, help="not counted in the figures")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--library", type=Path, nargs="+", default=[ROOT / "lib"], help="versions to measure in turn")
    options, job_options = parser.parse_known_args()
    os.environ.setdefault("JAVA_TOOL_OPTIONS", LONG_LIVED_JAVA_OPTIONS)
    libraries = [library for _ in range(options.repeats) for library in options.library]
    return max([_run(library, options, job_options) for library in libraries])


def _run(library: Path, options: argparse.Namespace, job_options: list[str]) -> int:
    """Returns the exit code for one run of one version."""
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    say(f"{library}, in {folder}:")
    grouping = () if options.device_groups is None else (f"--device-groups={options.device_groups}",)
    rules, events = Rules(), DEFAULT
    if options.ping:
        (folder / _MAP).write_text(WITH_PINGS)
        rules, events = Rules(inactivity_timeout_ms=_INACTIVITY_TIMEOUT_MS), yaml.safe_load(WITH_PINGS)
        grouping += (f"--events={folder / _MAP}", f"--inactivity-timeout={_INACTIVITY_TIMEOUT_MS}ms")
    with ExitStack() as running:
        topics = None
        if options.source == "kafka":
            broker = running.enter_context(Broker(folder / "broker"))
            broker.create_topics(dict.fromkeys(STREAMS, PARTITIONS))
            topics = Topics(broker.bootstrap_servers, PARTITIONS)
        job = running.enter_context(Job(folder, *grouping, *job_options, topics=topics))
        job.library = library
        job.conf = {"spark.driver.memory": "4g"} | dict(setting.split("=", 1) for setting in options.conf)
        serving = running.enter_context(Serving(folder, job.warehouse)) if options.serving else None
        samples, began_ms = _play(job, options, folder, serving)
        code = job.terminate()
        tables = read_tables(job.warehouse)
        ended_ms = began_ms + options.minutes * 60_000
        progress = [row for row in tables["stream_progress"] if began_ms <= row["processed_ms"] <= ended_ms]
        lines = [line.removeprefix("sessionize: ") for line in job.output_lines()[-8:]]
        for line in (*lines, *_quarters(samples, progress), *_freshness(progress), *_sizes(job)):
            say(line)
        if serving is not None:
            committed_ms = {
                row["processed_ms"]: row["processed_ms"] + row["batch_ms"]
                for row in progress
                if row["query"] == "sessionize"
            }
            changes = [row for row in tables["session_changes"] if began_ms <= row["processed_ms"] <= ended_ms]
            for line in serving.report(began_ms, changes, committed_ms):
                say(line)
        found = [] if code == 0 else [f"the job ended with code {code}"]
        records = None if topics is None else running.enter_context(topics.records())
        oracle = build_oracle(job.checkpoints, rules, records, groups=options.device_groups, digest=hash, events=events)
        pending = [entry[:2] for entry in oracle.entries if entry[2] == "pending_end"]
        found += differences(oracle, tables, job.checkpoints)
        found += unaccounted(tables, pending, events, has_activity=rules.has_activity)
    say(f"{len(found)} differences")
    for line in found[:_SHOWN]:
        say(f"  DIFFERENCE {line}")
    if found:
        return 1
    shutil.rmtree(folder)
    return 0


def _play(job: Job, options: argparse.Namespace, folder: Path, serving: Serving | None) -> tuple[Samples, float]:
    """Returns the samples after the warm-up, and the end of the warm-up in milliseconds since 1970."""
    job.start()
    job.wait_until((job.checkpoints / "sessionize" / "commits" / "0").exists, "a micro-batch", poll_s=0.2)
    if serving is not None:
        job.wait_until((job.warehouse / "sessions" / "_delta_log").is_dir, "the tables", poll_s=0.2)
        serving.start()
    seconds = options.warm_up_s + options.minutes * 60
    target = [f"--output={job.input}"]
    if job.topics is not None:
        target = ["--sink=kafka", f"--bootstrap-servers={job.topics.bootstrap_servers}"]
    load = [f"--rate={options.rate}", f"--live={options.live}", f"--dirt={options.dirt}"]
    if options.ping:
        load += [f"--events={folder / _MAP}", f"--ping={options.ping}"]
    words = command(*target, *load, f"--duration={round(seconds)}s", entry=(SIMULATE,))
    simulator = subprocess.Popen(words, env=environment())
    samples: Samples = defaultdict(list)
    next_s = time.monotonic() + options.warm_up_s
    began_ms = (time.time() + options.warm_up_s) * 1_000
    sampled_s, cpu_s = 0.0, Counter[str]()

    def load_is_over() -> bool:
        nonlocal next_s, sampled_s, cpu_s
        if time.monotonic() >= next_s:
            next_s += options.minutes * 60 / _SAMPLES
            for name, value in _measured(job):
                samples[name].append(value)
            now_s, used_s = time.monotonic(), processes.cpu_s(job.pid)
            if serving is not None:
                used_s += serving.cpu_s()
            if sampled_s:
                for process, seconds in (used_s - cpu_s).items():
                    samples[f"{process}, percent of a core"].append(100 * seconds / (now_s - sampled_s))
                samples["all, percent of a core"].append(100 * (used_s - cpu_s).total() / (now_s - sampled_s))
            sampled_s, cpu_s = now_s, used_s
        return simulator.poll() is not None

    try:
        job.wait_until(load_is_over, "the end of the load", poll_s=0.5, within_s=seconds + 300)
        assert simulator.returncode == 0, f"the simulator ended with code {simulator.returncode}"
        if serving is not None:
            serving.stop_asking()
        job.wait_until_done(_CATCH_UP_S)
    finally:
        simulator.kill()
        simulator.wait()
    return samples, began_ms


def _measured(job: Job) -> Iterator[tuple[str, float]]:
    yield from ((f"{kind} MB", mb) for kind, mb in sorted(processes.memory_mb(job.pid).items()))
    for table in COLUMNS:
        yield f"live files of {table}", len(live_files(job.warehouse / table))


def _quarters(samples: Samples, progress: Sequence[dict[str, Any]]) -> Iterator[str]:
    """How the samples, and the size of the state, change from the first to the last quarter."""
    in_order = sorted(progress, key=lambda row: row["processed_ms"])
    state = {name: [row[name] for row in in_order if row[name] is not None] for name in ("state_rows", "state_bytes")}
    yield f"{'':32}{'first quarter':>14}{'last quarter':>14}{'most':>10}  (medians of samples)"
    for name, values in (samples | state).items():
        if values:
            quarter = max(1, len(values) // 4)
            first, last = statistics.median(values[:quarter]), statistics.median(values[-quarter:])
            yield f"{name:32}{first:14,.0f}{last:14,.0f}{max(values):10,.0f}"


def _freshness(progress: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The delays, weighted by rows, and how long the micro-batches of each query take."""
    for name, (query, delay, weight) in _DELAYS.items():
        rows = [row for row in progress if row["query"] == query and row[weight] and row[f"{delay}_p50_ms"] is not None]
        by_p50, by_p99 = (
            Delays.of((row[f"{delay}_{share}_ms"], row[weight]) for row in rows) for share in ("p50", "p99")
        )
        if by_p50 and by_p99:
            most_ms = max(row[f"{delay}_max_ms"] for row in rows)
            yield f"{name}: p50 {by_p50.p50_ms:,} ms, p99 {by_p99.p99_ms:,} ms, most {most_ms:,} ms"
    for query in QUERIES:
        took = [row["batch_ms"] for row in progress if row["query"] == query and row["rows_in"]]
        if took:
            yield f"{query}: {len(took)} micro-batches, median {statistics.median(took):,.0f} ms, max {max(took):,} ms"


def _sizes(job: Job) -> Iterator[str]:
    """The size of each table, of `session_changes` by kind of change."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for table in COLUMNS:
        for file in live_files(job.warehouse / table).values():
            kind = file["partitionValues"].get("change")
            name = table if kind is None else f"{table}, {kind}"
            sums[name][0] += file["size"]
            sums[name][1] += json.loads(file["stats"])["numRecords"]
    for name, (size, rows) in sums.items():
        yield f"{name}: {size / _MB:,.0f} MB, {rows:,} rows, {size / max(rows, 1):.0f} bytes each"


if __name__ == "__main__":
    sys.exit(main())
