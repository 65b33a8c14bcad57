"""A job in the tests' own process, on real files; a test can start it several times."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from sessionization.job import shutdown
from sessionization.job.job_input import take_input
from sessionization.job.queries import Queries
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.folder import QUERIES
from sessionization.spark.checkpoint.opening import open_checkpoint
from sessionization.spark.checkpoint.pinned_settings import PinnedSettings
from sessionization.spark.job_context import JobContext
from sessionization.spark.output.progress import BatchProgress
from sessionization.spark.tables.creation import create_tables, fit_to_events, refuse_missing_tables, take_over
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import RAW_EVENTS, SESSION_CHANGES, Table
from sessionization.spark.warm_start.initial_state import warm_start
from tests.support.delta import read_table
from tests.support.settings import settings_of
from tests.support.warehouse import empty_tables


class Job:
    """A job in its own folder, which a test can start several times."""

    def __init__(self, spark: SparkSession, folder: Path, **settings: object) -> None:
        self.spark = spark
        self.input = folder / "in put [1]"
        self.input.mkdir()
        self.location = TableLocation(folder / "warehouse")
        places = {"input": self.input, "warehouse": folder / "warehouse", "checkpoints": folder / "checkpoints"}
        self._options = {**places, "heartbeat": "1s", "trigger": "200ms", "late_retention": "1s"}
        self.change(**settings)
        self.files = 0
        self.owner: str | None = None

    def change(self, **settings: object) -> None:
        """Use other settings from the next start on."""
        self._options |= settings
        self.settings = settings_of(SessionizeSettings, self._options)

    def send(self, *messages: dict | bytes, stream: str = "pc_sessions") -> None:
        """Deliver one file of messages as a producer should: written hidden, then renamed."""
        folder = self.input / stream
        folder.mkdir(exist_ok=True)
        lines = [message if isinstance(message, bytes) else json.dumps(message).encode() for message in messages]
        hidden = folder / ".next.tmp"
        hidden.write_bytes(b"".join(line + b"\n" for line in lines))
        self.files += 1
        hidden.rename(folder / f"{self.files}.json")

    @contextmanager
    def running(
        self, *names: str, report: Callable[[BatchProgress], None] = lambda _: None
    ) -> Iterator[dict[str, StreamingQuery]]:
        """Run the named queries, by default all three; each occupies a core."""
        settings = self.settings
        checkpoint = open_checkpoint(
            settings.state.checkpoints,
            PinnedSettings.of(settings, str(self.location)),
            settings.rules.of_sessions,
            warm=settings.state.from_sessions,
        ).with_events(settings.event_map, lambda _line: None)
        self.rules = checkpoint.in_force
        is_taking_over = checkpoint.is_warm and not checkpoint.is_used
        if is_taking_over:
            refuse_missing_tables(self.spark, self.location, checkpoint.layout.session_id_type)
            checkpoint = checkpoint.with_layout_of(settings.event_map, self.location.labels(self.spark))
        elif not settings.tables.warehouse.exists() and not checkpoint.layout.has_text_ids:
            empty_tables(self.spark, self.location, owner=checkpoint.id)
        context = JobContext(self.spark, settings, checkpoint, self.location)
        initial_state = warm_start(context)
        if is_taking_over:
            checkpoint.write()
            take_over(self.spark, self.location, checkpoint.id)
        if self.owner != checkpoint.id:  # a second check of its own tables would take seconds
            create_tables(
                self.spark,
                self.location,
                owner=checkpoint.id,
                session_id_type=None if checkpoint.is_used else checkpoint.layout.session_id_type,
            )
            self.owner = checkpoint.id
        fit_to_events(
            self.spark,
            self.location,
            settings.event_map,
            checkpoint.layout.labels,
            has_activity=checkpoint.in_force.has_activity,
        )
        self.context, self.pipeline = context, (pipeline := Queries(context, lambda _: None, (report,), initial_state))
        with take_input(context):
            try:
                pipeline.start(threading.Event(), names or QUERIES)
                yield pipeline.by_name
            finally:
                pipeline.end_rests()
                for query in pipeline.by_name.values():
                    query.stop()

    def stop(self, queries: dict[str, StreamingQuery]) -> list[str]:
        """Stop as the job does, between two micro-batches where possible; return the lines that it reported."""
        lines: list[str] = []
        self.pipeline.end_rests()
        assert shutdown.stop_queries(queries, self.settings.state.checkpoints, lines.append) == []
        return lines

    def rows(self, table: Table, **values: object) -> list[dict[str, Any]]:
        """The rows of a table with these values; read without Spark, which would take a core from the job."""
        rows = read_table(self.settings.tables.warehouse / table.name)
        return [row for row in rows if values.items() <= row.items()]

    def changes(self, **values: object) -> list[dict[str, Any]]:
        return sorted(self.rows(SESSION_CHANGES, **values), key=itemgetter("processed_ms"))

    def beats_under_newest_rules(self) -> list[dict[str, Any]]:
        """The heartbeats of micro-batches that started under the newest rules."""
        return [row for row in self.changes(change="heartbeat") if row["processed_ms"] > self.rules.previous_until_ms]

    def archived(self) -> int:
        return len(self.rows(RAW_EVENTS))

    def count(self, **values: object) -> int:
        return len(self.changes(**values))


def message(session_id: int, event: str, device: str = "d1") -> dict:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {"appSessionId": session_id, "eventId": f"ApplicationSession{event}", "hostPcId": device, "timestamp": now}
