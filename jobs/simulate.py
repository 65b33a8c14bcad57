"""Play an evening of gaming into the input of the sessionize job: `python jobs/simulate.py --help`."""

from sessionization.command_line.parser import run_job
from sessionization.say import Say
from sessionization.stop_signals import stop_on_signals
from sessionization_simulator.simulate_job import simulate
from sessionization_simulator.simulate_settings import SimulateSettings


def main(settings: SimulateSettings, say: Say) -> None:
    with stop_on_signals() as stop:
        simulate(settings, stop=stop, report=say)


def command() -> None:
    run_job(main, SimulateSettings, "simulate")


if __name__ == "__main__":
    command()
