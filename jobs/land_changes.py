"""Write changes from the topic of `sessionize --sink kafka` into the tables: `python jobs/land_changes.py --help`."""

import contextlib

from sessionization.command_line.parser import parse_settings, run, say_on_stderr
from sessionization.ops.maintenance_settings import LandChangesSettings
from sessionization.stop_signals import stop_on_signals

with contextlib.suppress(ModuleNotFoundError):  # a cluster has its own Spark
    import sessionization_laptop  # noqa: F401

PROG = "land_changes"
say = say_on_stderr(PROG)


def main() -> int:
    settings = parse_settings(LandChangesSettings, None, PROG)
    from sessionization.ops.land_changes import land_changes

    with stop_on_signals() as stop:
        land_changes(settings, say, stop)
    return 0


if __name__ == "__main__":
    run(main, PROG)
