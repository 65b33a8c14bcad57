"""Asks Postgres for one account after the other, in a process of its own: `python -m tests.bench.asking CONNINFO`.

Each line that it prints is an answer: when it came, milliseconds since 1970, and how long it took, milliseconds.
"""

import random
import sys
import time

import psycopg

from sessionization_laptop.demo_serving import ACCOUNT
from tests.support.serving import SCHEMA

_ASK_EVERY_S = 0.02
_CHOOSE_EVERY_S = 30
_ACCOUNTS = (
    f"SELECT account_id FROM {SCHEMA}.served_sessions WHERE account_id IS NOT NULL ORDER BY random() LIMIT 10000"
)


def main() -> None:
    """Ask until SIGTERM; it connects anew where the tables are not there yet."""
    while True:
        try:
            _ask(sys.argv[1])
        except psycopg.Error:
            time.sleep(0.2)


def _ask(conninfo: str) -> None:
    accounts: list[str] = []
    next_choice_s = 0.0
    with psycopg.connect(conninfo, autocommit=True) as connection:
        while True:
            time.sleep(_ASK_EVERY_S)
            if time.monotonic() >= next_choice_s:
                accounts = [account for (account,) in connection.execute(_ACCOUNTS)]
                next_choice_s = time.monotonic() + (_CHOOSE_EVERY_S if accounts else 1)
            elif accounts:
                began_s = time.perf_counter()
                connection.execute(ACCOUNT, (random.choice(accounts),)).fetchall()
                took_ms = (time.perf_counter() - began_s) * 1_000
                sys.stdout.write(f"{time.time() * 1_000:.0f} {took_ms:.3f}\n")


if __name__ == "__main__":
    main()
