"""Recompute the sessions of some days from the archived messages: `python jobs/backfill.py --help`."""

import contextlib

from sessionization.backfill.backfill_settings import BackfillSettings
from sessionization.command_line.parser import run_job
from sessionization.say import Say

with contextlib.suppress(ModuleNotFoundError):  # a cluster has its own Spark
    import sessionization_laptop  # noqa: F401


def main(settings: BackfillSettings, say: Say) -> None:
    from sessionization.backfill.backfill_job import backfill

    backfill(settings, say)


def command() -> None:
    run_job(main, BackfillSettings, "backfill")


if __name__ == "__main__":
    command()
