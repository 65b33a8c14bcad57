"""Play an evening of gaming into the input of the sessionize job: `python jobs/simulate.py --help`."""

from sessionization.command_line.parser import parse_settings, run
from sessionization.stop_signals import stop_on_signals
from sessionization_simulator.simulate_job import simulate
from sessionization_simulator.simulate_settings import SimulateSettings

PROG = "simulate"


def main() -> int:
    settings = parse_settings(SimulateSettings, None, PROG)
    with stop_on_signals() as stop:
        simulate(settings, stop=stop)
    return 0


if __name__ == "__main__":
    run(main, PROG)
