"""Compact and clean the tables beside the stream: `python jobs/maintain.py --help`."""

from sessionization.cli import parse, run, teller
from sessionization.ops.settings import MaintainSettings
from sessionization.signals import stop_on_signals

PROG = "maintain"
say = teller(PROG)


def main() -> int:
    settings = parse(MaintainSettings, None, PROG)
    from sessionization.ops.maintain import maintain

    with stop_on_signals() as stop:
        maintain(settings, say, stop)
    return 0


if __name__ == "__main__":
    run(main, PROG)
