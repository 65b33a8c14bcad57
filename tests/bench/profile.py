"""Profile the CPU time of a scenario: `python -m tests.bench.profile "beats, 100,000 live, 100 groups, noop"`.

Reports microseconds per change by thread (the kernel's count), by work of the Java threads (Java Flight Recorder), and
by work of Python (py-spy).
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.bench.measure import MEASURING
from tests.bench.scenario import Result, Scenario
from tests.bench.scenarios import QUICK, SCALING, WHOLE

_STATE_SERVER = r"PySparkStateServer"
_STATE_CALL = {
    "state calls: RocksDB": r"rocksdb|RocksDB",
    "state calls: Avro": r"avro|Avro|StateEncoder|StateTypesEncoder",
    "state calls: protocol, sockets": _STATE_SERVER,
}
_JAVA = {
    "rows to and from Python": r"arrow|Arrow|PythonRunner|columnar",
    "Parquet": r"parquet",
    "Delta": r"delta",
    "shuffle, sort": r"[sS]huffle|Sorter|Exchange|sort/",
    "commit of the state": r"streaming/state|CheckpointFileManager",
    "planning": r"catalyst/(analysis|optimizer|trees|plans|rules|parser)|codegen|janino|QueryExecution|QueryPlan|DAG",
    "rows of the load, counting": r"catalyst|spark/sql/execution|GeneratedClass",
}
_PYTHON = {
    "rules": r"sessionization/core",
    "entries, rows": r"sessionization/spark/operator/(stored_entries|event_text|output_rows)",
    "buckets (JSON)": r"sessionization/spark/operator/(group|session)_store",
    "processor": r"sessionization/spark/operator/processor",
    "rows from and to Arrow": r"serializers|conversion|pyarrow|pandas|types\.py",
}
_PYTHON_ANYWHERE = {"imports": r"importlib|zipimport", "state calls": r"stateful_processor_api_client|state_client"}
_COMPILER_AND_COLLECTOR = re.compile(r"jvm: (C\d Compiler|G\d|GC|VM Thread|VM Periodic)")
_RATE = 100


def main() -> int:
    scenarios = {scenario.name: scenario for scenario in (*QUICK, *SCALING, *WHOLE)}
    parser = argparse.ArgumentParser(prog="python -m tests.bench.profile", description=__doc__)
    parser.add_argument("scenario", choices=scenarios, metavar="SCENARIO", help="; ".join(scenarios))
    scenario = scenarios[parser.parse_args().scenario]
    with tempfile.TemporaryDirectory(prefix="bench-profile-") as folder:
        result, java, python = _profiled(scenario, Path(folder))
        sys.stdout.writelines(f"{line}\n" for line in _report(scenario, result, java, python))
    return 0


def _profiled(scenario: Scenario, folder: Path) -> tuple[Result, Counter[str], Counter[str]]:
    """The result of a run, and the samples of its Java threads and Python workers after the warm-up, by kind."""
    file, recording, stacks = folder / "scenario.json", folder / "jvm.jfr", folder / "python.txt"
    file.write_text(json.dumps(asdict(scenario)), encoding="utf-8")
    record = f"-Dfile.encoding=UTF-8 -XX:StartFlightRecording=filename={recording},settings=profile"
    with subprocess.Popen(
        [sys.executable, "-m", "tests.bench.run", str(file)],
        env=os.environ | {"JAVA_TOOL_OPTIONS": record},
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if line.strip() == MEASURING:
                break
        began = datetime.now(UTC)
        subprocess.run(
            ["py-spy", "record", "--pid", str(run.pid), "--subprocesses", "--format", "raw", "--rate", str(_RATE),
             "--duration", str(scenario.seconds), "--output", str(stacks)],
            stdout=subprocess.DEVNULL,
            check=True,
        )  # fmt: skip
        result = Result(**json.loads(run.stdout.read().splitlines()[-1]))
    return result, _java(recording, began, began + timedelta(seconds=scenario.seconds)), _python(stacks)


def _java(recording: Path, since: datetime, until: datetime) -> Counter[str]:
    text = subprocess.run(
        ["jfr", "print", "--json", "--stack-depth", "64", "--events", "jdk.ExecutionSample", str(recording)],
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    events = json.loads(text)["recording"]["events"]
    return Counter(
        _kind_of_java_work(list(_frames(event)))
        for event in events
        if since <= datetime.fromisoformat(event["values"]["startTime"]) <= until
    )


def _frames(event: Any) -> Iterator[str]:
    for frame in event["values"]["stackTrace"]["frames"]:
        yield f"{frame['method']['type']['name']}.{frame['method']['name']}"


def _python(stacks: Path) -> Counter[str]:
    samples_by_kind = Counter[str]()
    for line in stacks.read_text(encoding="utf-8").splitlines():
        stack, _, samples = line.rpartition(" ")
        if "worker.py" in stack:
            samples_by_kind[_kind_of_python_work(stack.split(";")[::-1])] += int(samples)
    return samples_by_kind


def _kind_of_java_work(frames: Sequence[str]) -> str:
    return _kind_of_work(frames, _STATE_CALL if any(re.search(_STATE_SERVER, frame) for frame in frames) else _JAVA)


def _kind_of_python_work(frames: Sequence[str]) -> str:
    for kind, pattern in _PYTHON_ANYWHERE.items():
        if any(re.search(pattern, frame) for frame in frames):
            return kind
    return _kind_of_work(frames, _PYTHON)


def _kind_of_work(frames: Sequence[str], kinds: Mapping[str, str]) -> str:
    """The kind of work of the innermost known frame."""
    for frame in frames:
        for kind, pattern in kinds.items():
            if re.search(pattern, frame):
                return kind
    return "other"


def _report(scenario: Scenario, result: Result, java: Counter[str], python: Counter[str]) -> Iterator[str]:
    changes = result.started + result.heartbeats + result.ended
    threads = Counter(result.threads_s)
    other_jvm_s = sum(cpu_s for name, cpu_s in threads.items() if _COMPILER_AND_COLLECTOR.match(name))
    yield f"{scenario.name}: {changes:,} changes in {result.seconds:,.0f} s; us of CPU a change"
    for kind, cpu_s in result.cpu_s.items():
        yield f"  {1e6 * cpu_s / changes:8.2f} {kind}"
    yield "by thread"
    for name, cpu_s in threads.most_common(14):
        yield f"  {1e6 * cpu_s / changes:8.2f} {name}"
    yield "the state store's own count (waiting included)"
    for name, spent_ms in Counter(result.state_ms).most_common(8):
        yield f"  {1e3 * spent_ms / changes:8.2f} {name}"
    for title, samples, cpu_s in (
        ("Java threads", java, result.cpu_s["jvm"] - other_jvm_s),
        ("Python", python, result.cpu_s["python"]),
    ):
        yield f"{title}: {samples.total():,} samples"
        for kind, count in samples.most_common():
            yield f"  {1e6 * cpu_s / changes * count / samples.total():8.2f} {kind}"


if __name__ == "__main__":
    sys.exit(main())
