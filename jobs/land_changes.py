"""Bring changes from the topic output_sessions into the tables: `python jobs/land_changes.py --help`."""

import contextlib
import sys

from sessionization.cli import parse, run
from sessionization.ops.settings import LandChangesSettings
from sessionization.signals import stop_on_signals

PROG = "land_changes"


def say(line: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{PROG}: {line}\n")
        sys.stderr.flush()


def main() -> int:
    settings = parse(LandChangesSettings, None, PROG)
    from sessionization.spark.landing import land

    with stop_on_signals() as stop:
        land(settings, say, stop)
    return 0


if __name__ == "__main__":
    run(main, PROG)
