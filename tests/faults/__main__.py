"""Kill the job many times on several evenings, and report the result: `python -m tests.faults --seeds 4 --kills 50`."""

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from sessionization.spark.engine.session import spark_session
from tests.support.boundaries import Boundary
from tests.support.event_maps import WITH_PINGS
from tests.support.harness import RULES_WITH_ACTIVITY, Cut, Run, compare, play
from tests.support.table_job import TableJob, table_events

_GROUPS = 8
_SHOWN = 20


def main() -> int:
    """Exits with code 1 where anything differs or a boundary was never hit.

    The folder of an evening that differs stays, and its path is printed.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seeds", type=int, default=4, help="how many evenings; each has its own seed, from 1")
    parser.add_argument("--kills", type=int, default=50, help="how many kills an evening")
    parser.add_argument("--source", choices=("files", "table"), default="files", help="where the job's messages are")
    parser.add_argument("--pings", action="store_true", help="with pings and an inactivity timeout")
    options = parser.parse_args()
    if options.pings and options.source == "table":
        parser.error("--pings needs --source files")
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    began_s = time.monotonic()
    differences = 0
    hits = Counter[Boundary]()
    for seed in range(1, options.seeds + 1):
        evening, groups = folder / str(seed), None if seed % 2 else _GROUPS
        evening.mkdir()
        more: dict[str, Any] = {"events": WITH_PINGS, "rules": RULES_WITH_ACTIVITY} if options.pings else {}
        if options.source == "table":
            more = {"kind": TableJob, "events": table_events(evening)}
        try:
            run = play(seed, options.kills, evening, groups=groups, **more)
            found = compare(run, spark_session(folder / "engine.log"))
        except Exception as error:  # noqa: BLE001 - the other evenings still need their reports
            differences += 1
            sys.stdout.write(f"seed {seed} broke off: {error!r}\n  kept: {evening}\n")
            continue
        differences += len(found)
        hits += Counter(cut.boundary for cut in run.cuts if cut.is_exact)
        sys.stdout.write("".join(f"{line}\n" for line in _report(seed, groups, run, found)))
        sys.stdout.flush()
        if not found:
            shutil.rmtree(evening)
    kills = options.seeds * options.kills
    took_s = time.monotonic() - began_s
    sys.stdout.write(f"{kills} kills, {options.seeds} seeds, {differences} differences, {took_s / 60:,.0f} min\n")
    missed = [boundary for boundary in Boundary if not hits[boundary]] if options.kills >= len(Boundary) else []
    if missed:
        sys.stdout.write(f"never hit: {', '.join(missed)}\n")
    if not differences:
        shutil.rmtree(folder, ignore_errors=True)  # the engine of the comparison still has its log there
    return 1 if differences or missed else 0


def _report(seed: int, groups: int | None, run: Run, found: Sequence[str]) -> Iterator[str]:
    """The report of a run, for a person to read."""
    ups_s = [cut.up_s for cut in run.cuts if cut.up_s is not None]
    layout = "one device per key" if groups is None else f"{groups} device groups"
    yield f"seed {seed}, {layout}: {len(run.cuts)} kills, {len(found)} differences, {run.seconds:,.0f} s"
    yield f"  {'boundary':22}{'kills':>6}{'reached':>9}{'left exactly this':>19}"
    for boundary in Boundary:
        cuts = [cut for cut in run.cuts if cut.boundary is boundary]
        yield f"  {boundary:22}{len(cuts):6}{_count(cuts, 'reached'):9}{_count(cuts, 'is_exact'):19}"
    left = ", ".join(f"{stage} {count}" for stage, count in Counter(cut.stage for cut in run.cuts).most_common())
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


if __name__ == "__main__":
    sys.exit(main())
