"""Bring changes from the topic of `sessionize --sink kafka` into the tables: `python jobs/land_changes.py --help`."""

from sessionization.cli import parse, run, teller
from sessionization.ops.settings import LandChangesSettings
from sessionization.signals import stop_on_signals

PROG = "land_changes"
say = teller(PROG)


def main() -> int:
    settings = parse(LandChangesSettings, None, PROG)
    from sessionization.ops.landing import land

    with stop_on_signals() as stop:
        land(settings, say, stop)
    return 0


if __name__ == "__main__":
    run(main, PROG)
