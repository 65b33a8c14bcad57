"""Check what the sessionize job needs, in the place where it will run: `python jobs/preflight.py --help`."""

import sys

from sessionization.command_line.parser import parse_settings, run
from sessionization.settings.sessionize_settings import SessionizeSettings

PROG = "preflight"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    settings = parse_settings(SessionizeSettings, None, PROG)
    from sessionization.ops.preflight import preflight

    preflight(settings, say)
    return 0


if __name__ == "__main__":
    run(main, PROG)
