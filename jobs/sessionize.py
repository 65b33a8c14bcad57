"""Turn device events into session tables: `python jobs/sessionize.py --help`."""

import contextlib

from sessionization.command_line.parser import run_job
from sessionization.say import Say
from sessionization.settings.sessionize_settings import SessionizeSettings

with contextlib.suppress(ModuleNotFoundError):  # a cluster has its own Spark
    import sessionization_laptop  # noqa: F401


def main(settings: SessionizeSettings, say: Say) -> None:
    from sessionization.job.sessionize_job import run_and_print_summary

    run_and_print_summary(settings, say)


def command() -> None:
    run_job(main, SessionizeSettings, "sessionize")


if __name__ == "__main__":
    command()
