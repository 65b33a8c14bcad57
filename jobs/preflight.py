"""Check what the sessionize job needs, in the place where it will run: `python jobs/preflight.py --help`."""

from sessionization.command_line.parser import parse_settings, run, say_on_stdout
from sessionization.settings.sessionize_settings import SessionizeSettings

PROG = "preflight"


def main() -> int:
    settings = parse_settings(SessionizeSettings, None, PROG)
    from sessionization.ops.preflight import preflight

    preflight(settings, say_on_stdout)
    return 0


if __name__ == "__main__":
    run(main, PROG)
