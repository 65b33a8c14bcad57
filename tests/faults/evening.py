"""One evening of many kills, and its report; in a module of its own, so that a process of its own can run it."""

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from sessionization.spark.session import spark_session
from tests.faults.boundaries import Boundary
from tests.faults.harness import Cut, Run, compare, play

_SHOWN = 20


def play_and_compare(seed: int, kills: int, folder: Path) -> tuple[int, list[str]]:
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
