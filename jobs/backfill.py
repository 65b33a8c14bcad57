"""Work out the sessions of some days anew from the archived messages: `python jobs/backfill.py --help`."""

from sessionization.backfill.settings import BackfillSettings
from sessionization.cli import parse, run, teller

PROG = "backfill"
say = teller(PROG)


def main() -> int:
    settings = parse(BackfillSettings, None, PROG)
    from sessionization.backfill.run import backfill

    backfill(settings, say)
    return 0


if __name__ == "__main__":
    run(main, PROG)
