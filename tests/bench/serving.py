"""The job serve_sessions beside a load of `tests.bench.soak`, and programs that ask Postgres meanwhile."""

import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import psycopg

from sessionization_laptop.postgres import Postgres
from tests.bench import processes
from tests.support.serving import SCHEMA, ServingJob

_ASK_EVERY_S = 0.02
_ACCOUNTS = (
    f"SELECT account_id FROM {SCHEMA}.served_sessions WHERE account_id IS NOT NULL ORDER BY random() LIMIT 10000"
)
_QUESTION = f"SELECT live_sessions, live_since, played_today_ms FROM {SCHEMA}.account_now WHERE account_id = %s"


class Serving:
    """Postgres, the job that fills it, and a program that asks one account after the other."""

    def __init__(self, folder: Path, warehouse: Path) -> None:
        self._postgres = Postgres(folder / "postgres", {"shared_buffers": "512MB"})
        self._folder, self._warehouse = folder, warehouse
        self._running, self._is_over = ExitStack(), threading.Event()
        self.answers_ms: list[float] = []

    def __enter__(self) -> Self:
        self._running.enter_context(self._postgres)
        self._job = self._running.enter_context(ServingJob(self._folder / "serving", self._warehouse, self._postgres))
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._running.close()

    def start(self) -> None:
        """Start the job, and the program that asks."""
        self._job.start()
        threading.Thread(target=self._ask, daemon=True).start()

    def forget(self) -> None:
        """Forget the answers of the warm-up."""
        self.answers_ms.clear()

    def stop_asking(self) -> None:
        """Ask no more: the load is over."""
        self._is_over.set()

    def cpu_s(self) -> Counter[str]:
        """CPU seconds by process."""
        return Counter(
            serve_sessions=processes.cpu_s(self._job.pid).total(), postgres=processes.cpu_s(self._postgres.pid).total()
        )

    def _ask(self) -> None:
        accounts: list[str] = []
        next_accounts_s = 0.0
        while not self._is_over.is_set():
            try:
                with psycopg.connect(self._postgres.conninfo, password=self._postgres.password) as connection:
                    connection.autocommit = True
                    while not self._is_over.wait(_ASK_EVERY_S):
                        if time.monotonic() >= next_accounts_s:
                            accounts = [account for (account,) in connection.execute(_ACCOUNTS)]
                            next_accounts_s = time.monotonic() + 30
                        if accounts:
                            began_s = time.perf_counter()
                            connection.execute(_QUESTION, (random.choice(accounts),)).fetchall()
                            self.answers_ms.append((time.perf_counter() - began_s) * 1_000)
            except psycopg.Error:
                time.sleep(0.2)

    def report(self, changes: Sequence[dict[str, Any]], committed_ms: dict[int, int]) -> Iterator[str]:
        """How long changes took to Postgres.

        Args:
            changes: rows of `session_changes` of the measured time.
            committed_ms: when Delta had a micro-batch of `sessionize`, by its clock.
        """
        with psycopg.connect(self._postgres.conninfo, password=self._postgres.password) as connection:
            rows = connection.execute(
                "SELECT device_id, session_id, round(extract(epoch FROM updated_at) * 1000)::bigint, "
                f"extract(epoch FROM written_at) * 1000, ended_at IS NULL FROM {SCHEMA}.served_sessions"
            ).fetchall()
        written = {(device, session, updated): float(at) for device, session, updated, at, _ in rows}
        of_delta, of_message = [], []
        for change in changes:
            at = written.get((change["device_id"], change["session_id"], change["processed_ms"]))
            if at is not None and change["change"] != "heartbeat":
                of_delta.append(at - committed_ms.get(change["processed_ms"], change["processed_ms"]))
                if change["ingested_ms"] is not None:
                    of_message.append(at - change["ingested_ms"])
        yield f"served: {len(rows):,} sessions, {sum(row[4] for row in rows):,} of them live"
        for name, values in (
            ("commit in Delta to row in Postgres", of_delta),
            ("message to row in Postgres", of_message),
            ("answer for an account", self.answers_ms),
        ):
            if len(values) > 1:
                cuts = statistics.quantiles(values, n=100)
                shares = f"p50 {cuts[49]:,.1f} ms, p99 {cuts[98]:,.1f} ms, most {max(values):,.1f} ms"
                yield f"{name}: {shares}, of {len(values):,}"
