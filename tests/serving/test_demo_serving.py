"""What the demo of serving asks of the tables in Postgres."""

from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

import psycopg
import pytest
from rich.console import Console

from sessionization.serving.served_tables import ServedTables
from sessionization_laptop.demo_serving import AskedAccounts

pytestmark = pytest.mark.job

ROW = "d,{number},{since},{since},0" + "1" * 19 + "\x010{account}\x010pc,\n"


def test_live_accounts_are_asked_for_one_by_one_and_answers_are_timed(connection: psycopg.Connection[Any]) -> None:
    tables = ServedTables("sessionization", (), "bigint", "UTC")
    tables.create(connection)
    asked, console = AskedAccounts(connection), Console(width=100)
    line, _ = asked.ask()
    assert line == "no change yet"
    since = datetime.now(UTC) - timedelta(seconds=90)
    rows = (ROW.format(number=number, since=since, account=account) for number, account in enumerate(("ann", "bob")))
    tables.write(connection, BytesIO("".join(rows).encode()), "1", round(since.timestamp() * 1_000))
    for _ in range(5):  # a round in five looks for accounts that are new
        line, table = asked.ask()
    assert line.startswith("2 answers of Postgres: p50 ")
    assert "the newest change is " in line
    with console.capture() as shown:
        console.print(table)
    for account in ("ann", "bob"):
        assert f" {account}      1     {since:%T} " in shown.get()
