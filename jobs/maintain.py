"""Compact and clean the tables while the stream runs: `python jobs/maintain.py --help`."""

import contextlib

from sessionization.command_line.parser import parse_settings, run, say_on_stderr
from sessionization.ops.maintenance_settings import MaintainSettings
from sessionization.stop_signals import stop_on_signals

with contextlib.suppress(ModuleNotFoundError):  # a cluster has its own Spark
    import sessionization_laptop  # noqa: F401

PROG = "maintain"
say = say_on_stderr(PROG)


def main() -> int:
    settings = parse_settings(MaintainSettings, None, PROG)
    from sessionization.ops.maintain import maintain

    with stop_on_signals() as stop:
        maintain(settings, say, stop)
    return 0


if __name__ == "__main__":
    run(main, PROG)
