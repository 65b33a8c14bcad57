"""Check what the sessionize job needs, in the place where it will run: `python jobs/preflight.py --help`."""

import contextlib

from sessionization.command_line.parser import run_job, say_on_stdout
from sessionization.say import Say
from sessionization.settings.sessionize_settings import SessionizeSettings

with contextlib.suppress(ModuleNotFoundError):  # a cluster has its own Spark
    import sessionization_laptop  # noqa: F401


def main(settings: SessionizeSettings, _say: Say) -> None:
    from sessionization.ops.preflight import preflight

    preflight(settings, say_on_stdout)


if __name__ == "__main__":
    run_job(main, SessionizeSettings, "preflight")
