"""Turn device events into session tables: `python jobs/sessionize.py --help`."""

from sessionization.cli import parse, run, teller
from sessionization.databricks import is_chosen
from sessionization.settings import SessionizeSettings

PROG = "sessionize"
say = teller(PROG)


def main() -> int:
    if not is_chosen("file"):
        say("the job's other task runs the stream (entry_point of the bundle): nothing to do here")
        return 0
    settings = parse(SessionizeSettings, None, PROG)
    # Spark is slow to import: a wrong option is told before.
    from sessionization.spark.run import run_and_tell

    run_and_tell(settings, say)
    return 0


if __name__ == "__main__":
    run(main, PROG)
