"""Kill the job many times on several evenings, and say what that did: `python -m tests.faults --seeds 3 --kills 70`."""

import argparse
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from statistics import median

from sessionization.spark.session import spark_session
from tests.faults.boundaries import Boundary
from tests.faults.harness import Cut, Run, compare, play

_SHOWN = 20


def main() -> int:
    """Exits with code 1 where anything differs; then the folder of that evening is kept, and named."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seeds", type=int, default=4, help="how many evenings; each has its own seed, from 1")
    parser.add_argument("--kills", type=int, default=50, help="how many kills an evening")
    parser.add_argument("--lanes", type=int, default=2, help="how many evenings side by side")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    began_s = time.monotonic()
    differences = 0
    with ProcessPoolExecutor(options.lanes, multiprocessing.get_context("spawn")) as lanes:
        seeds = range(1, options.seeds + 1)
        for evening in as_completed(lanes.submit(_evening, seed, options.kills, folder / str(seed)) for seed in seeds):
            found, lines = evening.result()
            differences += found
            sys.stdout.write("".join(f"{line}\n" for line in lines))
            sys.stdout.flush()
    kills = options.seeds * options.kills
    took_s = time.monotonic() - began_s
    sys.stdout.write(f"{kills} kills, {options.seeds} seeds, {differences} differences, {took_s / 60:,.0f} min\n")
    if not differences:
        shutil.rmtree(folder)
    return 1 if differences else 0


def _evening(seed: int, kills: int, folder: Path) -> tuple[int, list[str]]:
    """Play an evening; how many differences it has left, and the report."""
    folder.mkdir()
    run = play(seed, kills, folder, classes=folder / "classes.jsa")
    found = compare(run, spark_session(folder / "engine.log"))
    if not found:
        shutil.rmtree(folder)
    return len(found), list(report(seed, run, found))


def report(seed: int, run: Run, found: Sequence[str]) -> Iterator[str]:
    """A run as a person reads it."""
    ups_s = [cut.up_s for cut in run.cuts if cut.up_s is not None]
    yield f"seed {seed}: {len(run.cuts)} kills, {len(found)} differences, {run.seconds:,.0f} s"
    yield f"  {'boundary':22}{'kills':>6}{'reached':>9}{'left exactly this':>19}"
    for boundary in Boundary:
        cuts = [cut for cut in run.cuts if cut.boundary is boundary]
        yield f"  {boundary:22}{len(cuts):6}{_count(cuts, 'reached'):9}{_count(cuts, 'left'):19}"
    stages = Counter(cut.stage for cut in run.cuts)
    yield f"  left of sessionize's micro-batch: {', '.join(f'{stage} {count}' for stage, count in stages.most_common())}"
    if ups_s:
        yield f"  start to first commit: median {median(ups_s):.1f} s, longest {max(ups_s):.1f} s ({len(ups_s)} starts)"
    yield f"  rows: {', '.join(f'{name} {len(rows):,}' for name, rows in run.actual.items())}"
    yield from (f"  DIFFERENCE {line}" for line in found[:_SHOWN])
    if found:
        yield f"  kept: {run.job.input.parent}"


def _count(cuts: Sequence[Cut], what: str) -> int:
    return sum(getattr(cut, what) for cut in cuts)


if __name__ == "__main__":
    sys.exit(main())
