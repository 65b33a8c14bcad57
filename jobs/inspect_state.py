"""Show the state of the sessionize job: `python jobs/inspect_state.py --help`."""

import contextlib

from sessionization.command_line.parser import parse_settings, run, say_on_stdout
from sessionization.ops.maintenance_settings import InspectSettings

with contextlib.suppress(ModuleNotFoundError):  # a cluster has its own Spark
    import sessionization_laptop  # noqa: F401

PROG = "inspect_state"


def main() -> int:
    settings = parse_settings(InspectSettings, None, PROG)
    from sessionization.ops.inspect_state import inspect_state

    inspect_state(settings, say_on_stdout)
    return 0


if __name__ == "__main__":
    run(main, PROG)
