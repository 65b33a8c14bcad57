"""Keep the live sessions, and who plays now, in Postgres: `python jobs/serve_sessions.py --help`."""

import contextlib

from sessionization.command_line.parser import run_job
from sessionization.say import Say
from sessionization.serving.serving_settings import ServingSettings
from sessionization.stop_signals import stop_on_signals

with contextlib.suppress(ModuleNotFoundError):  # a cluster has its own Spark
    import sessionization_laptop  # noqa: F401


def main(settings: ServingSettings, say: Say) -> None:
    from sessionization.serving.serving_job import serve_sessions

    with stop_on_signals() as stop:
        serve_sessions(settings, say, stop)


def command() -> None:
    run_job(main, ServingSettings, "serve_sessions")


if __name__ == "__main__":
    command()
