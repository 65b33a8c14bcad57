"""Hold a load from Kafka for some minutes and report its cost: `python -m tests.bench.soak --minutes 5`."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from sessionization.core.session_state import Rules
from sessionization_laptop.broker import Broker
from tests.bench.scenario import LONG_LIVED_JAVA_OPTIONS, Delays
from tests.support.accounts import unaccounted
from tests.support.default_streams import STREAMS
from tests.support.delta import live_files
from tests.support.job import SIMULATE, Job, command, environment
from tests.support.oracle import COLUMNS, build_oracle
from tests.support.processes import processes_of_session
from tests.support.tables import Tables, differences, read_tables
from tests.support.topics import Topics

PARTITIONS = 4
_SAMPLES = 60
_SHOWN = 20
_CATCH_UP_S = 1_800
_MB = 1024 * 1024
Samples = dict[str, list[float]]


def main() -> int:
    """Exits with code 1 if the tables differ from the reference on the same topics; the folder then stays."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--rate", type=float, default=2_000, help="events per second, before dirt")
    parser.add_argument("--live", type=int, default=50_000, help="live sessions to hold")
    parser.add_argument("--dirt", type=float, default=0.02)
    parser.add_argument("--trigger", default="1s")
    parser.add_argument("--device-groups", type=int, help="as the job's option")
    parser.add_argument("--conf", action="append", default=[], help="a setting of Spark, name=value; may be repeated")
    parser.add_argument("--warm-up-s", type=float, default=60, help="not counted in the figures")
    options = parser.parse_args()
    os.environ.setdefault("JAVA_TOOL_OPTIONS", LONG_LIVED_JAVA_OPTIONS)
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    grouping = () if options.device_groups is None else (f"--device-groups={options.device_groups}",)
    with Broker(folder / "broker") as broker:
        broker.create_topics(dict.fromkeys(STREAMS, PARTITIONS))
        topics = Topics(broker.bootstrap_servers, PARTITIONS)
        job = Job(folder, f"--trigger={options.trigger}", *grouping, topics=topics)
        job.conf = {"spark.driver.memory": "4g"} | dict(setting.split("=", 1) for setting in options.conf)
        sys.stdout.write(f"in {folder}\n")
        with job:
            samples, began_ms = _play(job, broker, options)
            code = job.terminate()
        lines = [line.removeprefix("sessionize: ") for line in job.output_lines()[-8:]]
        tables = read_tables(job.warehouse)
        for line in (
            *lines,
            *_report(samples),
            *_state(tables, began_ms),
            *_durations(job),
            *_delays(tables, began_ms),
            _slowest_merges(tables, began_ms),
            *_sizes(job),
        ):
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
        found = [] if code == 0 else [f"the job ended with code {code}"]
        with topics.records() as records:
            oracle = build_oracle(job.checkpoints, Rules(), records, groups=options.device_groups, digest=hash)
        pending = [entry[:2] for entry in oracle.entries if entry[2] == "pending_end"]
        found += differences(oracle, tables, job.checkpoints) + unaccounted(tables, pending)
    sys.stdout.write(f"{len(found)} differences\n" + "".join(f"  DIFFERENCE {line}\n" for line in found[:_SHOWN]))
    if found:
        sys.stdout.write(f"the files are in {folder}\n")
        return 1
    shutil.rmtree(folder)
    return 0


def _play(job: Job, broker: Broker, options: argparse.Namespace) -> tuple[Samples, float]:
    """Returns the samples after the warm-up, and the end of the warm-up in milliseconds since 1970."""
    job.start()
    job.wait_until((job.checkpoints / "archive" / "commits" / "0").exists, "the archive", poll_s=0.2)
    seconds = options.warm_up_s + options.minutes * 60
    simulator = subprocess.Popen(
        command(
            *("--sink=kafka", f"--bootstrap-servers={broker.bootstrap_servers}"),
            *(f"--rate={options.rate}", f"--live={options.live}", f"--dirt={options.dirt}"),
            f"--duration={round(seconds)}s",
            entry=(SIMULATE,),
        ),
        env=environment(),
    )
    samples: Samples = defaultdict(list)
    warm_s = time.monotonic() + options.warm_up_s
    began_ms = (time.time() + options.warm_up_s) * 1_000
    next_s = warm_s

    def load_is_over() -> bool:
        nonlocal next_s
        if time.monotonic() >= next_s:
            next_s += options.minutes * 60 / _SAMPLES
            for name, value in _measured(job):
                samples[name].append(value)
        return simulator.poll() is not None

    try:
        job.wait_until(load_is_over, "the end of the load", poll_s=0.5, within_s=seconds + 300)
        assert simulator.returncode == 0, f"the simulator ended with code {simulator.returncode}"
        job.wait_until_done(_CATCH_UP_S)
    finally:
        simulator.kill()
        simulator.wait()
    return samples, began_ms


def _measured(job: Job) -> Iterator[tuple[str, float]]:
    rss_mb: dict[str, float] = defaultdict(float)
    for pid in processes_of_session(job.pid):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except OSError:  # it has just ended
            continue
        kind = "JVM" if b"SparkSubmit" in command else "driver" if b"sessionize.py" in command else "workers"
        rss_mb[kind] += pages * os.sysconf("SC_PAGE_SIZE") / _MB
    yield from ((f"{kind} MB", mb) for kind, mb in sorted(rss_mb.items()))
    for table in COLUMNS:
        yield f"live files of {table}", len(live_files(job.warehouse / table))


def _report(samples: Samples) -> Iterator[str]:
    yield f"{'':32}{'first quarter':>14}{'last quarter':>14}{'most':>10}  (medians of samples)"
    for name, values in samples.items():
        yield _quarters(name, values)


def _state(tables: Tables, began_ms: float) -> Iterator[str]:
    """The size of the state after the warm-up, as the engine reported it."""
    for name in ("state_rows", "state_bytes"):
        rows = (row for row in tables["stream_progress"].of("processed_ms", name) if row[1] is not None)
        yield _quarters(name, [size for clock_ms, size in sorted(rows) if clock_ms >= began_ms])


def _quarters(name: str, values: Sequence[float]) -> str:
    if not values:
        return f"{name:32}{'nothing':>14}"
    quarter = max(1, len(values) // 4)
    return f"{name:32}{median(values[:quarter]):14,.0f}{median(values[-quarter:]):14,.0f}{max(values):10,.0f}"


def _durations(job: Job) -> Iterator[str]:
    """How long the micro-batches of each query take, by the times in its checkpoint files."""
    for query in ("sessionize", "archive", "rollup"):
        folder = job.checkpoints / query
        offsets = sorted((folder / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        took_ms, cycle_ms, last = [], [], None
        for path in offsets:
            clock_ms = json.loads(path.read_text(encoding="utf-8").splitlines()[1])["batchTimestampMs"]
            commit = folder / "commits" / path.name
            if commit.exists():
                took_ms.append(commit.stat().st_mtime * 1_000 - clock_ms)
            if last is not None:
                cycle_ms.append(clock_ms - last)
            last = clock_ms
        yield (
            f"{query}: {len(offsets)} micro-batches, {_spread(took_ms)} long, {_spread(cycle_ms)} from one to the next"
        )


def _delays(tables: Tables, began_ms: float) -> Iterator[str]:
    """Event to row and heartbeat lateness of the rows after the warm-up."""
    progress = tables["stream_progress"].of("query", "processed_ms", "batch_ms")
    committed_ms = {clock_ms: clock_ms + took_ms for query, clock_ms, took_ms in progress if query == "sessionize"}
    for name, since, is_beat in (
        ("event to row", "ingested_ms", False),
        ("heartbeat lateness", "due_ms", True),
    ):
        rows = tables["session_changes"].of("processed_ms", since, "change")
        delays = [
            committed_ms[clock_ms] - since_ms
            for clock_ms, since_ms, change in rows
            if clock_ms >= began_ms and clock_ms in committed_ms
            if since_ms is not None and (change == "heartbeat") is is_beat
        ]
        yield f"{name}: {_spread(delays)}, {len(delays):,} rows"


def _slowest_merges(tables: Tables, began_ms: float) -> str:
    """The slowest message of each micro-batch of rollup after the warm-up: from ingest until `sessions` shows it."""
    rows = tables["stream_progress"].of("query", "processed_ms", "latency_max_ms")
    slowest_ms = [ms for query, clock_ms, ms in rows if query == "rollup" and clock_ms >= began_ms and ms is not None]
    return f"event to sessions, slowest of each micro-batch: {_spread(slowest_ms)}"


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


def _spread(values: Sequence[float]) -> str:
    found = Delays.of((round(value), 1) for value in values)
    return f"p50 {found.p50_ms:,} ms, p99 {found.p99_ms:,} ms, most {found.max_ms:,} ms" if found else "nothing"


if __name__ == "__main__":
    sys.exit(main())
