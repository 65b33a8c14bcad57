"""Kill the job many times on several evenings, and report the result: `python -m tests.faults --seeds 4 --kills 50`."""

import argparse
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from tests.faults.evening import play_and_compare
from tests.support.boundaries import Boundary


def main() -> int:
    """Exits with code 1 where anything differs or a boundary was never hit.

    The folder of an evening that differs stays, and its path is printed.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seeds", type=int, default=4, help="how many evenings; each has its own seed, from 1")
    parser.add_argument("--kills", type=int, default=50, help="how many kills an evening")
    parser.add_argument(
        "--lanes", type=int, default=1, help="how many evenings side by side; on two cores one is faster"
    )
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    began_s = time.monotonic()
    differences = 0
    hits = Counter[Boundary]()
    with ProcessPoolExecutor(options.lanes, multiprocessing.get_context("spawn")) as lanes:
        seeds = range(1, options.seeds + 1)
        for evening in as_completed(
            lanes.submit(play_and_compare, seed, options.kills, folder / str(seed)) for seed in seeds
        ):
            report = evening.result()
            differences += report.differences
            hits += report.hits
            sys.stdout.write("".join(f"{line}\n" for line in report.lines))
            sys.stdout.flush()
    kills = options.seeds * options.kills
    took_s = time.monotonic() - began_s
    sys.stdout.write(f"{kills} kills, {options.seeds} seeds, {differences} differences, {took_s / 60:,.0f} min\n")
    missed = [boundary for boundary in Boundary if not hits[boundary]] if options.kills >= len(Boundary) else []
    if missed:
        sys.stdout.write(f"never hit: {', '.join(missed)}\n")
    if not differences:
        shutil.rmtree(folder)
    return 1 if differences or missed else 0


if __name__ == "__main__":
    sys.exit(main())
