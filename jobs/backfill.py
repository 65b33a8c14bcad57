"""Recompute the sessions of some days from the archived messages: `python jobs/backfill.py --help`."""

import contextlib

from sessionization.backfill.backfill_settings import BackfillSettings
from sessionization.command_line.parser import parse_settings, run, say_on_stderr

with contextlib.suppress(ModuleNotFoundError):  # a cluster has its own Spark
    import sessionization_laptop  # noqa: F401

PROG = "backfill"
say = say_on_stderr(PROG)


def main() -> int:
    settings = parse_settings(BackfillSettings, None, PROG)
    from sessionization.backfill.backfill_job import backfill

    backfill(settings, say)
    return 0


if __name__ == "__main__":
    run(main, PROG)
