"""Delete a player's data from all tables, with a receipt: `python jobs/erase_account.py --help`."""

import contextlib
import sys

from sessionization.command_line.parser import parse_settings, run, say_on_stderr
from sessionization.ops.maintenance_settings import EraseSettings

with contextlib.suppress(ModuleNotFoundError):  # a cluster has its own Spark
    import sessionization_laptop  # noqa: F401

PROG = "erase_account"
say = say_on_stderr(PROG)


def main() -> int:
    settings = parse_settings(EraseSettings, None, PROG)
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


if __name__ == "__main__":
    run(main, PROG)
