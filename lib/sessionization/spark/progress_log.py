"""The way of a micro-batch's row into `stream_progress`: off the way of the micro-batches themselves."""

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from sessionization.errors import CheckpointError
from sessionization.files import write_whole
from sessionization.spark.causes import first_cause
from sessionization.spark.progress import Progress
from sessionization.spark.session import on_databricks
from sessionization.spark.tables import STREAM_PROGRESS, TableHome

_log = logging.getLogger(__name__)

APPEND_EVERY_S = 10


class ProgressLog:
    """Rows that wait, each in a file of the checkpoint, until one commit takes all of them to the table.

    A micro-batch writes its file before the engine notes it as done, so a kill loses no row. A file is removed once the
    table has its row. Which rows the table has, is told by each query's newest micro-batch in it, since a query's rows
    come in order; so none is appended twice either (docs/adr/0008-progress-rows.md).
    """

    def __init__(self, folder: Path, begun: Mapping[str, int]) -> None:
        """Raises `CheckpointError` for a file that cannot be read; `begun` is the newest micro-batch of each query."""
        self._folder, self._begun = folder, begun
        self._newest: dict[str, int] = {}
        self._in_table: dict[str, int] | None = None
        folder.mkdir(exist_ok=True)
        for row in self._waiting().values():
            _raise_to(self._newest, row)

    def open(self, spark: SparkSession, home: TableHome) -> dict[str, int]:
        """Look up which rows the table has.

        Returns:
            The newest micro-batch of each query that has left a row, in the table or here.
        """
        self._in_table = self._look_up(spark, home)
        for query, batch_id in self._in_table.items():
            self._newest[query] = max(batch_id, self._newest.get(query, -1))
        return dict(self._newest)

    def keep(self, progress: Progress) -> None:
        """Keep the row of a micro-batch; of one that is repeated the first row stays."""
        if progress.batch_id > self._newest.get(progress.query, -1):
            row = progress.row()
            write_whole(self._folder / f"{progress.query}-{progress.batch_id}.json", json.dumps(row))
            _raise_to(self._newest, row)

    def append(self, spark: SparkSession, home: TableHome) -> None:
        """Append the rows that wait; after a failure it is looked up again which of them the table has."""
        waiting = self._waiting()
        if not waiting:
            return
        in_table = self._look_up(spark, home) if self._in_table is None else self._in_table
        rows = [row for row in waiting.values() if row["batch_id"] > in_table.get(row["query"], -1)]
        self._in_table = None
        if rows:
            home.append(
                spark.createDataFrame(map(_table_row, rows), STREAM_PROGRESS.schema).coalesce(1), STREAM_PROGRESS
            )
        for row in rows:
            _raise_to(in_table, row)
        self._in_table = in_table
        for file in waiting:
            file.unlink()

    @contextlib.contextmanager
    def appended(self, spark: SparkSession, home: TableHome, say: Callable[[str], None]) -> Iterator[None]:
        """Append what waits every few seconds from a thread of its own, and once more in the end."""
        over = threading.Event()

        def append() -> None:
            if not on_databricks():
                spark.sparkContext.setLocalProperty("spark.scheduler.pool", STREAM_PROGRESS.name)
            while not over.wait(APPEND_EVERY_S):
                self._try_append(spark, home, _log.warning)

        thread = threading.Thread(target=append, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self._try_append(spark, home, say)

    def _try_append(self, spark: SparkSession, home: TableHome, say: Callable[[str], None]) -> None:
        try:
            self.append(spark, home)
        except (PySparkException, Py4JError, OSError) as error:  # the rows stay here; the next time will do
            say(f"`stream_progress` is behind: {first_cause(str(error))}")

    def _waiting(self) -> dict[Path, dict[str, Any]]:
        waiting = {}
        for file in self._folder.glob("[!.]*.json"):
            try:
                waiting[file] = json.loads(file.read_text(encoding="utf-8"))
            except ValueError as error:
                msg = f"{file} is not readable ({error}): delete it; `stream_progress` will lack that one row"
                raise CheckpointError(msg) from error
        return waiting

    def _look_up(self, spark: SparkSession, home: TableHome) -> dict[str, int]:
        """The newest micro-batch of each query in the table; none where it is older than all that matter.

        The files that hold older ones are skipped by their statistics, however long the table has grown.
        """
        first = dict(self._begun)
        for row in self._waiting().values():
            first[row["query"]] = min(row["batch_id"], first.get(row["query"], row["batch_id"]))
        matters = " OR ".join(f"(query = '{query}' AND batch_id >= {batch_id})" for query, batch_id in first.items())
        table = home.sql_name(STREAM_PROGRESS.name)
        found = spark.sql(
            f"SELECT query, max(batch_id) AS batch_id FROM {table} WHERE {matters} GROUP BY query"
        ).collect()
        return {row.query: row.batch_id for row in found}


def _raise_to(newest: dict[str, int], row: Mapping[str, Any]) -> None:
    newest[row["query"]] = max(row["batch_id"], newest.get(row["query"], -1))


def _table_row(row: Mapping[str, Any]) -> Row:
    at = datetime.fromtimestamp(row["processed_ms"] / 1000, UTC)
    return Row(*(at if name == "processed_at" else row[name] for name in STREAM_PROGRESS.column_names))
