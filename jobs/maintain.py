"""Compact and clean the tables beside the stream: `python jobs/maintain.py --help`."""

import sys

from sessionization.cli import parse, run
from sessionization.ops.settings import MaintainSettings
from sessionization.signals import stop_on_signals

PROG = "maintain"


def say(line: str) -> None:
    sys.stderr.write(f"{PROG}: {line}\n")


def main() -> int:
    settings = parse(MaintainSettings, None, PROG)
    from sessionization.ops.maintain import maintain

    with stop_on_signals() as stop:
        maintain(settings, say, stop)
    return 0


if __name__ == "__main__":
    run(main, PROG)
