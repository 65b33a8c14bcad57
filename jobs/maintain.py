"""Compact and clean the tables while the stream runs: `python jobs/maintain.py --help`."""

import contextlib

from sessionization.command_line.parser import run_job
from sessionization.ops.maintenance_settings import MaintainSettings
from sessionization.say import Say
from sessionization.stop_signals import stop_on_signals

with contextlib.suppress(ModuleNotFoundError):  # a cluster has its own Spark
    import sessionization_laptop  # noqa: F401


def main(settings: MaintainSettings, say: Say) -> None:
    from sessionization.ops.maintain import maintain

    with stop_on_signals() as stop:
        maintain(settings, say, stop)


def command() -> None:
    run_job(main, MaintainSettings, "maintain")


if __name__ == "__main__":
    command()
