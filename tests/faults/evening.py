"""One evening of many kills, and its report; in its own module, so that a process of its own can run it."""

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from sessionization.spark.engine.session import spark_session
from tests.support.boundaries import Boundary
from tests.support.harness import Cut, Run, compare, play

_SHOWN = 20


_GROUPS = 8


@dataclass(frozen=True)
class EveningReport:
    """The result of an evening: the number of differences, the hits of each boundary, and the report's lines."""

    differences: int
    hits: Counter[Boundary]
    lines: list[str]


def play_and_compare(seed: int, kills: int, folder: Path) -> EveningReport:
    """Play an evening; one with an even seed has device groups."""
    folder.mkdir()
    groups = None if seed % 2 else _GROUPS
    try:
        run = play(seed, kills, folder, groups=groups)
        found = compare(run, spark_session(folder / "engine.log"))
    except Exception as error:  # noqa: BLE001 - the other evenings still need their reports
        return EveningReport(1, Counter(), [f"seed {seed} broke off: {error!r}", f"  kept: {folder}"])
    if not found:
        shutil.rmtree(folder)
    hits = Counter(cut.boundary for cut in run.cuts if cut.is_exact)
    return EveningReport(len(found), hits, list(report_lines(seed, groups, run, found)))


def report_lines(seed: int, groups: int | None, run: Run, found: Sequence[str]) -> Iterator[str]:
    """The report of a run, for a person to read."""
    ups_s = [cut.up_s for cut in run.cuts if cut.up_s is not None]
    layout = "one device per key" if groups is None else f"{groups} device groups"
    yield f"seed {seed}, {layout}: {len(run.cuts)} kills, {len(found)} differences, {run.seconds:,.0f} s"
    yield f"  {'boundary':22}{'kills':>6}{'reached':>9}{'left exactly this':>19}"
    for boundary in Boundary:
        cuts = [cut for cut in run.cuts if cut.boundary is boundary]
        yield f"  {boundary:22}{len(cuts):6}{_count(cuts, 'reached'):9}{_count(cuts, 'is_exact'):19}"
    stages = Counter(cut.stage for cut in run.cuts)
    left = ", ".join(f"{stage} {count}" for stage, count in stages.most_common())
    yield f"  left of sessionize's micro-batch: {left}"
    if ups_s:
        yield f"  start to first commit: median {median(ups_s):.1f} s, longest {max(ups_s):.1f} s ({len(ups_s)} starts)"
    yield f"  rows: {', '.join(f'{name} {len(rows):,}' for name, rows in run.actual.items())}"
    yield from (f"  DIFFERENCE {line}" for line in found[:_SHOWN])
    if found:
        yield from (f"  killed at {cut.boundary}: micro-batch {cut.batch_id}, {cut.stage}" for cut in run.cuts)
        yield f"  kept: {run.job.input.parent}"


def _count(cuts: Sequence[Cut], name: str) -> int:
    return sum(getattr(cut, name) for cut in cuts)
