"""Write changes from the topic of `sessionize --sink kafka` into the tables: `python jobs/land_changes.py --help`."""

import contextlib

from sessionization.command_line.parser import run_job
from sessionization.ops.maintenance_settings import LandChangesSettings
from sessionization.say import Say
from sessionization.stop_signals import stop_on_signals

with contextlib.suppress(ModuleNotFoundError):  # a cluster has its own Spark
    import sessionization_laptop  # noqa: F401


def main(settings: LandChangesSettings, say: Say) -> None:
    from sessionization.ops.land_changes import land_changes

    with stop_on_signals() as stop:
        land_changes(settings, say, stop)


def command() -> None:
    run_job(main, LandChangesSettings, "land_changes")


if __name__ == "__main__":
    command()
