"""The job serve_sessions beside a load of `tests.bench.soak`, and programs that ask Postgres meanwhile."""

import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import psycopg

from sessionization_laptop.postgres import Postgres
from tests.bench import processes
from tests.support.job import ROOT, environment
from tests.support.serving import SCHEMA, ServingJob


class Serving:
    """Postgres, the job that fills it, and a program that asks one account after the other."""

    def __init__(self, folder: Path, warehouse: Path) -> None:
        self._postgres = Postgres(folder / "postgres", {"shared_buffers": "512MB"})
        self._folder, self._warehouse = folder, warehouse
        self._answers = folder / "answers"
        self._running = ExitStack()
        self._asking: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._running.enter_context(self._postgres)
        self._job = self._running.enter_context(ServingJob(self._folder / "serving", self._warehouse, self._postgres))
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_asking()
        self._running.close()

    def start(self) -> None:
        """Start the job, and the program that asks."""
        self._job.start()
        with self._answers.open("wb") as answers:
            words = (sys.executable, "-u", "-m", "tests.bench.asking", self._postgres.conninfo)
            variables = environment(PGPASSWORD=self._postgres.password)
            self._asking = subprocess.Popen(words, stdout=answers, env=variables, cwd=ROOT)

    def stop_asking(self) -> None:
        """Ask no more: the load is over."""
        if self._asking is not None:
            self._asking.terminate()
            self._asking.wait()

    def cpu_s(self) -> Counter[str]:
        """CPU seconds by process."""
        return Counter(
            serve_sessions=processes.cpu_s(self._job.pid).total(), postgres=processes.cpu_s(self._postgres.pid).total()
        )

    def report(self, began_ms: float, changes: Sequence[dict[str, Any]], committed_ms: dict[int, int]) -> Iterator[str]:
        """How long changes took to Postgres, and answers.

        Args:
            began_ms: when the measured time began, milliseconds since 1970.
            changes: rows of `session_changes` of that time.
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
        answers = (line.split() for line in self._answers.read_text().splitlines())
        answers_ms = [float(took_ms) for at_ms, took_ms in answers if float(at_ms) >= began_ms]
        yield f"served: {len(rows):,} sessions, {sum(row[4] for row in rows):,} of them live"
        for name, values in (
            ("commit in Delta to row in Postgres", of_delta),
            ("message to row in Postgres", of_message),
            ("answer for an account", answers_ms),
        ):
            if len(values) > 1:
                cuts = statistics.quantiles(values, n=100)
                shares = f"p50 {cuts[49]:,.1f} ms, p99 {cuts[98]:,.1f} ms, most {max(values):,.1f} ms"
                yield f"{name}: {shares}, of {len(values):,}"
