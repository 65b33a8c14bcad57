"""Turn device events into session tables: `python jobs/sessionize.py --help`."""

import contextlib

from sessionization.command_line.parser import parse_settings, run, say_on_stderr
from sessionization.settings.sessionize_settings import SessionizeSettings

with contextlib.suppress(ModuleNotFoundError):  # a cluster has its own Spark
    import sessionization_laptop  # noqa: F401

PROG = "sessionize"
say = say_on_stderr(PROG)


def main() -> int:
    settings = parse_settings(SessionizeSettings, None, PROG)
    # Imported late, because Spark takes seconds to import and --help should not.
    from sessionization.job.sessionize_job import run_and_print_summary

    run_and_print_summary(settings, say)
    return 0


if __name__ == "__main__":
    run(main, PROG)
