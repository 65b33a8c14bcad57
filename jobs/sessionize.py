"""Turn device events into session tables: `python jobs/sessionize.py --help`."""

from sessionization.command_line.parser import parse, run, say_on_stderr
from sessionization.databricks import is_chosen
from sessionization.settings.sessionize_settings import SessionizeSettings

PROG = "sessionize"
say = say_on_stderr(PROG)


def main() -> int:
    if not is_chosen("file"):
        say("the job's other task runs the stream (entry_point of the bundle): nothing to do here")
        return 0
    settings = parse(SessionizeSettings, None, PROG)
    # Spark is slow to import: a wrong option is told before.
    from sessionization.job.sessionize_job import run_and_print_summary

    run_and_print_summary(settings, say)
    return 0


if __name__ == "__main__":
    run(main, PROG)
