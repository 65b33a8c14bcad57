"""Delete a player's data from all tables, with a receipt: `python jobs/erase_account.py --help`."""

import contextlib
import sys

from sessionization.command_line.parser import run_job
from sessionization.ops.maintenance_settings import EraseSettings
from sessionization.say import Say

with contextlib.suppress(ModuleNotFoundError):  # a cluster has its own Spark
    import sessionization_laptop  # noqa: F401


def main(settings: EraseSettings, say: Say) -> int:
    from sessionization.ops.erase import erase

    receipt = erase(settings, say)
    sys.stdout.write(f"{receipt}\n")
    if receipt.state:
        say(
            "the job remembers the account yet: let it run for session_timeout + late_retention, "
            "then run this once more"
        )
        return 1
    return 0


def command() -> None:
    run_job(main, EraseSettings, "erase_account")


if __name__ == "__main__":
    command()
