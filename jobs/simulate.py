"""Play an evening of gaming into the input of the sessionize job: `python jobs/simulate.py --help`."""

from sessionization.cli import parse, run
from sessionization.signals import stop_on_signals
from sessionization.simulate.run import simulate
from sessionization.simulate.settings import SimulateSettings

PROG = "simulate"


def main() -> int:
    settings = parse(SimulateSettings, None, PROG)
    with stop_on_signals() as stop:
        simulate(settings, stop=stop)
    return 0


if __name__ == "__main__":
    run(main, PROG)
