"""Check what the sessionize job needs, in the place where it will run: `python jobs/preflight.py --help`."""

import contextlib

from sessionization.command_line.parser import parse_settings, run, say_on_stdout
from sessionization.settings.sessionize_settings import SessionizeSettings

with contextlib.suppress(ModuleNotFoundError):  # a cluster has its own Spark
    import sessionization_laptop  # noqa: F401

PROG = "preflight"


def main() -> int:
    settings = parse_settings(SessionizeSettings, None, PROG)
    from sessionization.ops.preflight import preflight

    preflight(settings, say_on_stdout)
    return 0


if __name__ == "__main__":
    run(main, PROG)
