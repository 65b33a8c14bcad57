"""Bring the tables of players and days up to date: `python jobs/players.py --help`."""

import contextlib

from sessionization.command_line.parser import run_job
from sessionization.players.players_settings import PlayersSettings
from sessionization.say import Say
from sessionization.stop_signals import stop_on_signals

with contextlib.suppress(ModuleNotFoundError):  # a cluster has its own Spark
    import sessionization_laptop  # noqa: F401


def main(settings: PlayersSettings, say: Say) -> None:
    from sessionization.players.players_job import keep_players

    with stop_on_signals() as stop:
        keep_players(settings, say, stop)


def command() -> None:
    run_job(main, PlayersSettings, "players")


if __name__ == "__main__":
    command()
