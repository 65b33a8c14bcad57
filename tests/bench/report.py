"""Results as text, the median over the runs of a scenario with minimum and maximum; and as runs in MLflow.

The runs are in this project: `mlflow ui --backend-store-uri sqlite:///.bench/mlflow.db`.
"""

import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

from sessionization.ml.runs import KIND_TAG, RunKind, import_mlflow
from tests.bench.scenario import YARDSTICK, Result, Scenario

Results = Mapping[tuple[Scenario, str], Mapping[int, Result]]
"""The runs of each scenario and side, by round. A side is a source tree with its Spark settings."""

HERE = "here"
"""The side of this tree, uncommitted changes included, with the usual settings."""

_EXPERIMENT = "sessionization-bench"
_COST = {
    "cores": "cores",
    "CPU s per million changes": "cpu_s_per_million_changes",
    "of it Python": "cpu_s_per_million_changes_python",
}
_SIZE = {
    "JVM MB": "peak_mb_jvm",
    "Python MB": "peak_mb_python",
    "state MB": "state_mb",
    "checkpoint MB": "checkpoint_mb",
}
_FULL_SPEED = (
    {"starts/s": "starts_per_s", "heartbeats/s": "heartbeats_per_s", "activities/s": "activities_per_s"} | _COST | _SIZE
)
_STEADY = (
    {
        "changes/s": "changes_per_s",
        "micro-batch p50 ms": "tick_p50_ms",
        "longest ms": "tick_max_ms",
        "lateness p50 ms": "lateness_p50_ms",
        "p99 ms": "lateness_p99_ms",
        "most ms": "lateness_max_ms",
        "beats missed %": "missed_percent",
        "event to row p50 ms": "event_to_row_p50_ms",
        "p99 ms ": "event_to_row_p99_ms",
    }
    | _COST
    | _SIZE
)
_COMPARED = {
    "starts": "starts_per_s",
    "beats": "heartbeats_per_s",
    "pings": "activities_per_s",
    "mix": "cpu_s_per_million_changes",
}
"""The figure that decides which of two runs is better, by load: the rate at full speed, or the cost of `mix`."""
_GB_IN_KB = 1024 * 1024


def tables(results: Results) -> Iterator[str]:
    """Markdown: a table of the loads at full speed and one of the steady loads, a row per scenario and side."""
    for columns, is_steady in ((_FULL_SPEED, False), (_STEADY, True)):
        yield from _table(columns, {key: runs for key, runs in results.items() if (key[0].load == "mix") is is_steady})


def _table(columns: Mapping[str, str], results: Results) -> Iterator[str]:
    """Yield a table without the columns that have no measurement."""
    figures = {key: [result.figures() for result in runs.values()] for key, runs in results.items()}
    shown = {
        title: name for title, name in columns.items() if any(name in run for runs in figures.values() for run in runs)
    }
    if not figures:
        return
    yield f"| | {' | '.join(title.strip() for title in shown)} |"
    yield f"|---|{'---:|' * len(shown)}"
    for (scenario, side), runs in figures.items():
        cells = (_spread([run[name] for run in runs if name in run]) for name in shown.values())
        yield f"| {titled(scenario, side, results)} | {' | '.join(cells)} |"
    yield ""


def ratios(results: Results) -> Iterator[str]:
    """Compare each layout with the yardstick under the same load, and this tree with the other sides, by round."""
    for (scenario, side), runs in results.items():
        for (other, other_side), other_runs in results.items():
            if scenario != other and other.layout == YARDSTICK and side == other_side:
                if (scenario.load, scenario.live, scenario.sink) == (other.load, other.live, other.sink):
                    yield from _ratio(titled(scenario, side, results), "the yardstick", scenario, runs, other_runs)
            elif scenario == other and side == HERE != other_side:
                yield from _ratio(titled(scenario, side, results), other_side, scenario, runs, other_runs)


def _ratio(
    title: str, other_title: str, scenario: Scenario, runs: Mapping[int, Result], other_runs: Mapping[int, Result]
) -> Iterator[str]:
    name = _COMPARED[scenario.load]
    rounds = ((runs[number].figures(), other_runs[number].figures()) for number in runs if number in other_runs)
    if shares := [own[name] / others[name] for own, others in rounds if others[name]]:
        yield f"- {title}: {_spread(shares)} x {other_title} ({_title_of(name)})"


def _title_of(name: str) -> str:
    return next(title for title, its_name in (_FULL_SPEED | _STEADY).items() if its_name == name)


def titled(scenario: Scenario, side: str, results: Results) -> str:
    """The scenario's name, with the side where results have more than one."""
    return scenario.name if len({side for _, side in results}) == 1 else f"{scenario.name}, {side}"


def describe_run(root: Path) -> str:
    """The command, the machine, the commit and the date of a run."""
    changed = ", with changes" if _git(root, "status", "--porcelain", "lib", "tests") else ""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal: *(\d+)", Path("/proc/meminfo").read_text())
    parts = [
        f"{os.cpu_count()} cores",
        model.group(1).strip() if model else platform.machine(),
        f"{int(memory.group(1)) / _GB_IN_KB:,.0f} GB" if memory else "",
        f"Spark {version('pyspark')}",
        f"commit {_git(root, 'rev-parse', '--short', 'HEAD')}{changed}",
        f"{datetime.now(UTC):%Y-%m-%d}",
    ]
    return f"`{shlex.join(['python', '-m', 'tests.bench', *sys.argv[1:]])}`: {', '.join(filter(None, parts))}."


def record(results: Results, title: str, folder: Path) -> None:
    """Store results in MLflow: a parent run, and a nested run for every run of a scenario."""
    mlflow = import_mlflow()
    folder.mkdir(parents=True, exist_ok=True)
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    if mlflow.get_experiment_by_name(_EXPERIMENT) is None:
        mlflow.create_experiment(_EXPERIMENT, artifact_location=(folder / "artifacts").absolute().as_uri())
    mlflow.set_experiment(_EXPERIMENT)
    tags = {KIND_TAG: RunKind.BENCHMARK.value}
    with mlflow.start_run(description=title):
        for (scenario, side), runs in results.items():
            for result in runs.values():
                with mlflow.start_run(run_name=scenario.name, nested=True, tags=tags) as run:
                    mlflow.log_params(asdict(scenario) | {"side": side})
                    mlflow.log_metrics(result.figures())
                    series = [
                        mlflow.entities.Metric("tick_ms", took_ms, 0, step)
                        for step, took_ms in enumerate(result.ticks_ms)
                    ]
                    mlflow.MlflowClient().log_batch(run.info.run_id, metrics=series)


def say(line: str) -> None:
    """Print a line without buffering."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    shown = _number(median(values))
    return shown if len(values) == 1 else f"{shown} ({_number(min(values))} to {_number(max(values))})"


def _number(value: float) -> str:
    return f"{value:,.2f}" if abs(value) < 10 else f"{value:,.0f}"


def _git(root: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True).stdout.strip()
