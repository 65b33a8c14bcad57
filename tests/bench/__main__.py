"""Measure the operator by scenario: `python -m tests.bench --repeats 3`.

The scenarios run in turn, several times each, so that all of them share the noise of the machine.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from tests.bench import report
from tests.bench.scenario import ACTIVITY, MAPS, QUICK, SCALING, WHOLE, Result, Scenario

_ROOT = Path(__file__).parents[2]
_STORE = _ROOT / ".bench"
_Side = tuple[list[Path], list[str]]
"""The paths of the library and the benchmarks, and Spark settings in addition to the usual ones."""


def main() -> int:
    """Exits with code 1 if a run failed; the report still has the other runs."""
    options = _options()
    if options.list:
        report.say("\n".join(scenario.name for scenario in _chosen(options)))
        return 0
    title = report.describe_run(_ROOT)
    results: defaultdict[tuple[Scenario, str], dict[int, Result]] = defaultdict(dict)
    failed = 0
    with _sides(options.against, options.conf) as sides:
        for repeat in range(options.repeats or (1 if options.scenarios is QUICK else 3)):
            for scenario in _chosen(options):
                for side, (paths, conf) in sides.items():
                    try:
                        result = _run(scenario, paths, conf)
                    except subprocess.CalledProcessError as error:
                        failed += 1
                        report.say(f"{repeat + 1}: {scenario.name}, {side}: FAILED, exit code {error.returncode}")
                        continue
                    results[scenario, side][repeat] = result
                    report.say(f"{repeat + 1}: {scenario.name}, {side}: {_short(result)}")
    report.say("\n".join([title, "", *report.tables(results), *report.ratios(results)]))
    report.record(results, title, _STORE)
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.set_defaults(scenarios=WHOLE)
    for name, scenarios, shown in (
        ("--quick", QUICK, "small loads, once each; three minutes"),
        ("--scaling", SCALING, "the cost of a live session by number of sessions and groups"),
        ("--maps", MAPS, "what an event map costs: ids that are UUIDs, and four labels, beside none"),
        ("--activity", ACTIVITY, "what signs of life cost: at full speed, and in a steady load beside none"),
    ):
        parser.add_argument(name, dest="scenarios", action="store_const", const=scenarios, help=shown)
    parser.add_argument("--repeats", type=int, help="runs of each scenario; 3 by default")
    parser.add_argument("--only", action="append", default=[], help="scenarios whose name holds this; may be repeated")
    parser.add_argument("--list", action="store_true", help="name the scenarios, and run none")
    parser.add_argument("--against", help="a commit: run every scenario in turn with its lib/ and with this one")
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        help="'name=value ...': run every scenario in turn with these Spark settings as well",
    )
    return parser.parse_args()


def _chosen(options: argparse.Namespace) -> list[Scenario]:
    return [
        scenario
        for scenario in options.scenarios
        if not options.only or any(part in scenario.name for part in options.only)
    ]


@contextmanager
def _sides(commit: str | None, conf: Sequence[str]) -> Iterator[dict[str, _Side]]:
    """The sides to run in turn, by name. They are copies, because a tree may change during hours of runs."""
    with tempfile.TemporaryDirectory(prefix="bench-trees-") as folder:
        here = Path(folder, "here")
        for part in ("lib", "tests"):
            shutil.copytree(_ROOT / part, here / part, ignore=shutil.ignore_patterns("__pycache__"))
        sides: dict[str, _Side] = {report.HERE: ([here / "lib", here], [])}
        if commit is not None:
            other = Path(folder, "other")
            other.mkdir()
            archive = subprocess.run(["git", "archive", commit, "lib"], cwd=_ROOT, stdout=subprocess.PIPE, check=True)
            subprocess.run(["tar", "-x", "-C", str(other)], input=archive.stdout, check=True)
            sides = {commit: ([other / "lib", here], [])} | sides
        yield sides | {settings: ([here / "lib", here], settings.split()) for settings in conf}


def _run(scenario: Scenario, paths: Sequence[Path], conf: Sequence[str]) -> Result:
    with tempfile.TemporaryDirectory(prefix="bench-run-") as folder:
        file = Path(folder, "scenario.json")
        file.write_text(json.dumps(asdict(scenario)), encoding="utf-8")
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.run", str(file), *conf],
            cwd=paths[-1],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return Result(**json.loads(done.stdout.splitlines()[-1]))


def _short(result: Result) -> str:
    figures = result.figures()
    wanted: Sequence[str] = (
        "activities_per_s", "starts_per_s", "heartbeats_per_s", "cores", "tick_p50_ms", "tick_max_ms",
        "lateness_p99_ms", "peak_mb",
    )  # fmt: skip
    return ", ".join(f"{name} {figures[name]:,.2f}" for name in wanted if name in figures)


if __name__ == "__main__":
    sys.exit(main())
