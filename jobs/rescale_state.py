"""Spread the state of a stopped sessionize job over other partitions: `python jobs/rescale_state.py --help`."""

from sessionization.cli import parse, run, teller
from sessionization.ops.settings import RescaleSettings
from sessionization.signals import stop_on_signals

PROG = "rescale_state"
say = teller(PROG)


def main() -> int:
    settings = parse(RescaleSettings, None, PROG)
    from sessionization.ops.rescale import rescale

    with stop_on_signals() as stop:
        rescale(settings, say, stop)
    return 0


if __name__ == "__main__":
    run(main, PROG)
