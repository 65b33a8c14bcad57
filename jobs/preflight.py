"""Check what the sessionize job needs, in the place where it will run: `python jobs/preflight.py --help`.

With --sample FILE, say what an event map understands of a file of messages instead, without Spark.
"""

import contextlib
import sys

from sessionization.command_line.parser import run_job, say_on_stdout
from sessionization.sample.sample_job import SampleSettings, describe_sample
from sessionization.say import Say
from sessionization.settings.sessionize_settings import SessionizeSettings

with contextlib.suppress(ModuleNotFoundError):  # a cluster has its own Spark
    import sessionization_laptop  # noqa: F401


def main(settings: SessionizeSettings, _say: Say) -> None:
    from sessionization.ops.preflight import preflight

    preflight(settings, say_on_stdout)


def sample(settings: SampleSettings, _say: Say) -> None:
    describe_sample(settings, say_on_stdout)


def command() -> None:
    if any(word.partition("=")[0] == "--sample" for word in sys.argv):
        run_job(sample, SampleSettings, "preflight")
    else:
        run_job(main, SessionizeSettings, "preflight")


if __name__ == "__main__":
    command()
