"""Show the state of the sessionize job: `python jobs/inspect_state.py --help`."""

import contextlib

from sessionization.command_line.parser import run_job, say_on_stdout
from sessionization.ops.maintenance_settings import InspectSettings
from sessionization.say import Say

with contextlib.suppress(ModuleNotFoundError):  # a cluster has its own Spark
    import sessionization_laptop  # noqa: F401


def main(settings: InspectSettings, _say: Say) -> None:
    from sessionization.ops.inspect_state import inspect_state

    inspect_state(settings, say_on_stdout)


def command() -> None:
    run_job(main, InspectSettings, "inspect_state")


if __name__ == "__main__":
    command()
