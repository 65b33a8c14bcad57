"""Recompute the sessions of some days from the archived messages: `python jobs/backfill.py --help`."""

from sessionization.backfill.backfill_settings import BackfillSettings
from sessionization.command_line.parser import parse_settings, run, say_on_stderr

PROG = "backfill"
say = say_on_stderr(PROG)


def main() -> int:
    settings = parse_settings(BackfillSettings, None, PROG)
    from sessionization.backfill.backfill_job import backfill

    backfill(settings, say)
    return 0


if __name__ == "__main__":
    run(main, PROG)
