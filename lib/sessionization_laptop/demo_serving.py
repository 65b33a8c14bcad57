"""The demo of serving: while players play, Postgres is asked each second about some of them."""

import os
import statistics
import subprocess
import sys
import time
from collections import deque
from contextlib import closing, suppress
from datetime import UTC
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from pyspark.sql import SparkSession
from rich.table import Table

from sessionization.errors import StreamError
from sessionization.stop_signals import stop_on_signals
from sessionization_laptop.demo_evening import DemoView, Evening, Source, evening
from sessionization_laptop.postgres import Postgres, binary

SECONDS = 120
"""How long the sessionize job runs. Meanwhile the serving job starts, with a Spark of its own."""
_JOB_RUNS_FOR = "10m"  # also where a killed demo does not end it
_EVERY_S = 1
_LINE_EVERY = 10
_NEW_ACCOUNT_EVERY = 5
_SHOWN = 6
_PASSWORD = "POSTGRES_PASSWORD"  # noqa: S105 - the name of a variable

NEWEST: LiteralString = """
  SELECT account_id FROM sessionization.live_sessions
  WHERE account_id IS NOT NULL AND account_id <> ALL (%s) ORDER BY updated_at DESC LIMIT %s
"""
ACCOUNT: LiteralString = """
  SELECT live_sessions, live_since, played_today_ms FROM sessionization.account_now WHERE account_id = %s
"""
AGE: LiteralString = (
    "SELECT extract(epoch FROM clock_timestamp() - newest_at)::float FROM sessionization.serving_progress"
)


class AskedAccounts:
    """Accounts that began to play lately, each asked for by itself, and how long the answers took."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._accounts: deque[str] = deque(maxlen=_SHOWN)
        self._rounds = 0
        self._took_ms: list[float] = []

    def ask(self) -> tuple[str, Table]:
        """Ask for each account once; return how long that took, and the answers."""
        if self._rounds % _NEW_ACCOUNT_EVERY == 0:
            number = max(1, _SHOWN - len(self._accounts))
            newest = self._connection.execute(NEWEST, (list(self._accounts), number)).fetchall()
            self._accounts.extend(account for (account,) in newest)
        self._rounds += 1
        table = Table(
            "account", "live", "since (UTC)", "play time today", "answered in", box=None, title_justify="left"
        )
        for account in self._accounts:
            began_s = time.perf_counter()
            answer = self._connection.execute(ACCOUNT, (account,)).fetchone()
            took_ms = (time.perf_counter() - began_s) * 1_000
            self._took_ms.append(took_ms)
            live, since, played_ms = answer or (0, None, 0)
            since_text = f"{since.astimezone(UTC):%T}" if since else ""
            minutes, seconds = divmod(played_ms // 1_000, 60)
            table.add_row(account, str(live), since_text, f"{minutes} min {seconds} s", f"{took_ms:.1f} ms")
        return self._times(), table

    def _times(self) -> str:
        [age_s] = self._connection.execute(AGE).fetchone() or [None]
        age = "no change yet" if age_s is None else f"the newest change is {age_s:.1f} s old"
        if not self._took_ms:
            return age
        p50_ms, worst_ms = statistics.median(self._took_ms), max(self._took_ms)
        return f"{len(self._took_ms):,} answers of Postgres: p50 {p50_ms:.1f} ms, worst {worst_ms:.1f} ms; {age}"


class ServingPage:
    """Starts the serving job once there are tables, and then puts answers of Postgres into the view."""

    def __init__(self, played: Evening, postgres: Postgres, serve: Path, view: DemoView) -> None:
        options = ("--postgres", postgres.conninfo, "--password", f"env:{_PASSWORD}", "--run-for", _JOB_RUNS_FOR)
        self._command = [sys.executable, str(serve), "--warehouse", str(played.folder / "warehouse"), *options]
        self._environment = os.environ | {_PASSWORD: postgres.password}
        self._log_file, self._view = played.folder / "serving.log", view
        self._connection = psycopg.connect(postgres.conninfo, password=postgres.password, autocommit=True)
        self._accounts = AskedAccounts(self._connection)
        self._looks = 0
        self._job: subprocess.Popen[bytes] | None = None

    def look(self, _: SparkSession) -> None:
        if self._job is None:
            self._view.say(f"the serving job starts (about 20 s), and writes {self._log_file}")
            with self._log_file.open("wb") as log:
                self._job = subprocess.Popen(
                    self._command,
                    env=self._environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C in a terminal ends the evening first
                )
        self._ask()
        self._looks += 1
        if self._looks % _LINE_EVERY == 0 and not self._view.console.is_terminal:
            self._view.console.print(*self._view.answers[:1])

    def look_at_end(self, _: SparkSession) -> None:
        """Ask once more; raises `StreamError` where the serving job has ended on its own."""
        self._ask()
        if self._job is not None and self._job.poll() is not None:
            msg = f"the serving job ended with code {self._job.returncode}: see why in {self._log_file}"
            raise StreamError(msg)

    def _ask(self) -> None:
        with suppress(psycopg.errors.InvalidSchemaName, psycopg.errors.UndefinedTable):  # not created yet
            answers = self._accounts.ask()
            if not self._view.answers:
                self._view.notes.clear()  # of the start
            self._view.answers = [*answers]

    def close(self) -> None:
        self._connection.close()
        if self._job is not None:
            self._job.terminate()
            self._job.wait()


def demo_serving(folder: Path, simulate: Path, serve: Path, source: Source) -> None:
    """Play an evening, run the job on it, serve its tables from a Postgres of its own, and ask that.

    `simulate` and `serve` are the scripts of the simulator and of the serving job. In a terminal Postgres goes on
    after the evening, until Ctrl-C.
    """
    view = DemoView()
    console = view.console
    with (
        evening(folder, simulate, source, SECONDS) as played,
        Postgres(folder / "postgres") as postgres,
        stop_on_signals() as stop,
    ):
        with closing(ServingPage(played, postgres, serve, view)) as page:
            summary = played.play(view, page.look, _EVERY_S, page.look_at_end)
        console.print(*summary, sep="\n", highlight=False, markup=False)
        console.print(*view.answers)
        if console.is_terminal:
            console.print("\nPostgres answers until Ctrl-C. Ask it yourself, in another terminal:", highlight=False)
            command = f'PGPASSWORD=$(cat "{postgres.password_file}") "{binary("psql")}" "{postgres.conninfo}"'
            query = "SELECT * FROM sessionization.account_now WHERE live_sessions > 0 LIMIT 5"
            console.print(f'  {command} -c "{query}"', style="cyan", highlight=False, markup=False, soft_wrap=True)
            stop.wait()
