"""Change the number of state partitions of a stopped sessionize job: `python jobs/rescale_state.py --help`."""

import contextlib

from sessionization.command_line.parser import run_job
from sessionization.ops.maintenance_settings import RescaleSettings
from sessionization.say import Say
from sessionization.stop_signals import stop_on_signals

with contextlib.suppress(ModuleNotFoundError):  # a cluster has its own Spark
    import sessionization_laptop  # noqa: F401


def main(settings: RescaleSettings, say: Say) -> None:
    from sessionization.ops.rescale import rescale

    with stop_on_signals() as stop:
        rescale(settings, say, stop)


def command() -> None:
    run_job(main, RescaleSettings, "rescale_state")


if __name__ == "__main__":
    command()
