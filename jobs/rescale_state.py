"""Change the number of state partitions of a stopped sessionize job: `python jobs/rescale_state.py --help`."""

import contextlib

from sessionization.command_line.parser import parse_settings, run, say_on_stderr
from sessionization.ops.maintenance_settings import RescaleSettings
from sessionization.stop_signals import stop_on_signals

with contextlib.suppress(ModuleNotFoundError):  # a cluster has its own Spark
    import sessionization_laptop  # noqa: F401

PROG = "rescale_state"
say = say_on_stderr(PROG)


def main() -> int:
    settings = parse_settings(RescaleSettings, None, PROG)
    from sessionization.ops.rescale import rescale

    with stop_on_signals() as stop:
        rescale(settings, say, stop)
    return 0


if __name__ == "__main__":
    run(main, PROG)
