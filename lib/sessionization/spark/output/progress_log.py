"""Appends the rows of micro-batches to `stream_progress`, outside the micro-batches themselves."""

import contextlib
import json
import logging
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JError

from sessionization.clock import utc
from sessionization.files import write_atomically
from sessionization.hadoop_path import AnyPath
from sessionization.say import Say
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.engine.session import use_scheduler_pool
from sessionization.spark.job_context import JobContext
from sessionization.spark.output.progress import ADDED_COLUMNS, BatchProgress
from sessionization.spark.tables.creation import added_counts
from sessionization.spark.tables.schemas import STREAM_PROGRESS

_log = logging.getLogger(__name__)

APPEND_EVERY_S = 10
LAST_APPEND_WITHIN_S = 10
_FILE_NAME = re.compile(r"(?P<query>[a-z]+)-(?P<batch_id>[0-9]+)\.json")


class ProgressLog:
    """Stores rows, each in a file of the checkpoint, until one commit appends all of them to the table.

    A micro-batch writes its file before the engine commits that micro-batch, so a kill loses no row. A file is
    removed once the table has its row. A query's rows come in order, so its newest micro-batch in the table shows
    which rows the table has. No row is therefore appended twice (docs/adr/0008-progress-rows.md).
    """

    def __init__(self, context: JobContext) -> None:
        """Find the files, and look up which rows the table has."""
        self._spark, self._location, self._check_lease = context.spark, context.location, context.check_lease
        checkpoint, events = context.checkpoint, context.settings.event_map
        has_activity = checkpoint.in_force.has_activity
        columns = (*STREAM_PROGRESS.columns, *added_counts(events, has_activity=has_activity))
        self._schema = replace(STREAM_PROGRESS, columns=columns).schema
        self._folder, self._newest_started = checkpoint.progress_folder, checkpoint.newest_started_batches()
        self._since_ms = checkpoint.created_ms if checkpoint.is_warm else 0  # older rows are another checkpoint's
        self._folder.mkdir(exist_ok=True)
        self._waiting = self._find_files()
        self._in_table: dict[str, int] | None = self._look_up()
        self.newest = dict(self._in_table)
        """The newest micro-batch of each query that has a row in the table or in a file."""
        for query, batch_id in self._waiting:
            _raise_to(self.newest, query, batch_id)

    def store(self, progress: BatchProgress) -> None:
        """Store the row of a micro-batch; a repeated micro-batch does not replace its first row."""
        if progress.batch_id > self.newest.get(progress.query, -1):
            file = self._file(progress.query, progress.batch_id)
            write_atomically(file, json.dumps(progress.row()))
            self._waiting[progress.query, progress.batch_id] = file
            _raise_to(self.newest, progress.query, progress.batch_id)

    def append(self) -> None:
        """Append the waiting rows.

        After a failure, the next call looks up again which rows the table has.
        """
        waiting = dict(self._waiting)
        if not waiting:
            return
        in_table = self._look_up() if self._in_table is None else self._in_table
        self._in_table = None
        new = {key: file for key, file in waiting.items() if key[1] > in_table.get(key[0], -1)}
        names = self._schema.names  # without the added columns that the table lacks
        read = [row for file in new.values() if (row := _read(file)) is not None]
        rows = [tuple(row[name] for name in names) for row in read]
        if rows:
            self._check_lease()
            frame = self._spark.createDataFrame(rows, self._schema)
            self._location.append(frame.coalesce(1), STREAM_PROGRESS)
        for query, batch_id in new:
            _raise_to(in_table, query, batch_id)
        self._in_table = in_table
        for key, file in waiting.items():
            file.unlink(missing_ok=True)
            del self._waiting[key]

    @contextlib.contextmanager
    def append_in_background(self, say: Say) -> Iterator[None]:
        """Append the waiting rows from a separate thread every few seconds, and once more at the end."""
        is_over = threading.Event()

        def append() -> None:
            with contextlib.suppress(Py4JError, OSError):  # another part reports a dead engine
                use_scheduler_pool(self._spark, STREAM_PROGRESS.name)
            while not is_over.wait(APPEND_EVERY_S):
                self._try_append(_log.warning)
            self._try_append(say)

        thread = threading.Thread(target=append, daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join(LAST_APPEND_WITHIN_S)
            if thread.is_alive():
                say("`stream_progress` is behind until the next start")

    def _try_append(self, say: Say) -> None:
        try:
            self.append()
        except Exception as error:  # noqa: BLE001 - the files stay for the next attempt, and the queries go on
            say(f"`stream_progress` is behind: {root_cause(str(error))}")

    def _file(self, query: str, batch_id: int) -> AnyPath:
        return self._folder / f"{query}-{batch_id}.json"

    def _find_files(self) -> dict[tuple[str, int], AnyPath]:
        """The whole files by query and micro-batch.

        On a volume a listing may lack the newest ones, and still have some that were removed; and a kill may leave a
        part of one, whose micro-batch is repeated.
        """
        named = (_FILE_NAME.fullmatch(file.name) for file in self._folder.iterdir())
        listed = {(match["query"], int(match["batch_id"])) for match in named if match is not None}
        files: dict[tuple[str, int], AnyPath] = {}
        for query, newest in self._newest_started.items():
            for batch_id in range(newest, -1, -1):  # the newest one may have stored nothing
                if _read(file := self._file(query, batch_id)) is not None:
                    files[query, batch_id] = file
                elif batch_id < newest:
                    break
        others = {key: self._file(*key) for key in listed - files.keys()}
        return files | {key: file for key, file in others.items() if _read(file) is not None}

    def _look_up(self) -> dict[str, int]:
        """The newest micro-batch of each query in the table, without queries that have no relevant rows there.

        Statistics let Delta skip the table's files with older rows, however long the table has grown.
        """
        oldest = dict(self._newest_started)
        for query, batch_id in list(self._waiting):
            oldest[query] = min(batch_id, oldest.get(query, batch_id))
        is_relevant = " OR ".join(
            f"(query = '{query}' AND batch_id >= {batch_id})" for query, batch_id in oldest.items()
        )
        table = self._location.sql_name(STREAM_PROGRESS.name)
        found = self._spark.sql(
            f"SELECT query, max(batch_id) AS batch_id FROM {table} "
            f"WHERE ({is_relevant}) AND processed_at >= timestamp_millis({self._since_ms}) GROUP BY query"
        ).collect()
        return {row.query: row.batch_id for row in found}


def _raise_to(newest: dict[str, int], query: str, batch_id: int) -> None:
    newest[query] = max(batch_id, newest.get(query, -1))


def _read(file: AnyPath) -> dict[str, Any] | None:
    """The row in a file, with null in added columns that it lacks; None where there is none, or a part of one."""
    try:
        row = json.loads(file.read_text(encoding="utf-8"))
        row["processed_at"] = utc(row["processed_ms"])
        added = {name: row.get(name) for name in ADDED_COLUMNS}
        return {name: row[name] for name in STREAM_PROGRESS.column_names} | added
    except (FileNotFoundError, ValueError, LookupError):
        return None
