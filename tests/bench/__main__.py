"""Measure the operator by scenario: `python -m tests.bench --repeats 3`; several times in turn, so that noise is shared."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from tests.bench import calls, report
from tests.bench.scenario import Result, Scenario
from tests.bench.scenarios import QUICK, WHOLE

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "benchmarks.md"
_STORE = _ROOT / ".bench"
_HERE = "here"


def main() -> int:
    options = _options()
    scenarios = [
        scenario
        for scenario in (QUICK if options.quick else WHOLE)
        if not options.only or any(part in scenario.name for part in options.only)
    ]
    if options.list:
        sys.stdout.write("".join(f"{scenario.name}\n" for scenario in scenarios))
        return 0
    page = report.Page.of(_PAGE) if options.write else None  # now, and not after some hours
    results: defaultdict[tuple[Scenario, str], list[Result]] = defaultdict(list)
    with _sides(options.against) as sides:
        for repeat in range(options.repeats or (1 if options.quick else 3)):
            for scenario in scenarios:
                for side, tree in sides.items():
                    result = _run(scenario, tree, count_calls=options.count_calls)
                    results[scenario, side].append(result)
                    _say(f"{repeat + 1}: {scenario.name}, {side}: {_short(result)}")
    _tell(results, page)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small loads, once each; three minutes")
    parser.add_argument("--repeats", type=int, help="runs of each scenario; 3 by default")
    parser.add_argument("--only", action="append", default=[], help="scenarios whose name holds this; may be repeated")
    parser.add_argument("--list", action="store_true", help="name the scenarios, and run none")
    parser.add_argument("--against", help="a commit whose lib/ every scenario is run with in turn with this one's")
    parser.add_argument("--count-calls", action="store_true", help="count the calls to the state, which costs time")
    parser.add_argument("--write", action="store_true", help="put the results into docs/benchmarks.md")
    return parser.parse_args()


@contextmanager
def _sides(commit: str | None) -> Iterator[dict[str, Path]]:
    """The tree of the commit to compare with, and this one."""
    if commit is None:
        yield {_HERE: _ROOT}
        return
    with tempfile.TemporaryDirectory(prefix="bench-tree-") as folder:
        tree = Path(folder, "tree")
        git = ("git", "-C", str(_ROOT), "worktree")
        subprocess.run([*git, "add", "--detach", "--quiet", str(tree), commit], check=True)
        try:
            yield {commit: tree, _HERE: _ROOT}
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def _run(scenario: Scenario, tree: Path, *, count_calls: bool) -> Result:
    """Run a scenario of this tree with the library of `tree`."""
    with tempfile.TemporaryDirectory(prefix="bench-run-") as folder:
        file = Path(folder, "scenario.json")
        file.write_text(json.dumps(asdict(scenario)), encoding="utf-8")
        environment = os.environ | {"PYTHONPATH": f"{tree / 'lib'}{os.pathsep}{_ROOT}"}
        if count_calls:
            counted = Path(folder, "calls")
            counted.mkdir()
            environment[calls.FOLDER] = str(counted)
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.run", str(file)],
            cwd=_ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return Result(**json.loads(done.stdout.splitlines()[-1]))


def _tell(results: report.Results, page: report.Page | None) -> None:
    """Print the results, keep them in MLflow and, with their pictures, in a page of the documentation."""
    from tests.bench.plots import draw
    from tests.bench.record import record

    title = report.occasion()
    told = "\n".join([title, "", *report.tables(results), *report.ratios(results)])
    sys.stdout.write(f"{told}\n")
    pictures = list(draw(results, _PAGE.with_suffix("") if page else _STORE))
    if page:
        shown = "\n".join(f"![{file.stem}]({file.relative_to(_PAGE.parent)})" for file in pictures)
        _PAGE.write_text(page.with_results(f"{told}\n\n{shown}"), encoding="utf-8")
    record(results, title, pictures, _STORE)


def _short(result: Result) -> str:
    figures = result.figures()
    wanted: Sequence[str] = (
        "starts_per_s", "heartbeats_per_s", "cores", "tick_p50_ms", "tick_max_ms", "lateness_p99_ms", "peak_mb",
    )  # fmt: skip
    return ", ".join(f"{name} {figures[name]:,.2f}" for name in wanted if name in figures)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
