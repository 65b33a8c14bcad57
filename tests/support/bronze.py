"""A Delta table that another program fills: written by the protocol alone, without Spark, and read back likewise."""

import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.checkpoints import Batch
from tests.support.messages import Message

_COLUMNS = {"ingested_at": "timestamp", "body": "binary"}
_TYPES = {"timestamp": pa.timestamp("us", tz="UTC"), "binary": pa.binary(), "string": pa.string()}
Row = tuple[int, bytes | None]
"""Ingest time in microseconds, and message."""


class Bronze:
    """A table with messages in the column `body`; each append is a version with a file for each part of the rows."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "_delta_log"
        self.version = -1
        self._columns = dict(_COLUMNS)
        self._id = str(uuid.uuid4())
        self.log.mkdir(parents=True)
        protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
        self._commit([{"protocol": protocol}, self._metadata()])

    def append(self, *parts: Sequence[Row]) -> None:
        self._commit([{"add": self._written(rows, changes=True)} for rows in parts])

    def compact(self) -> None:
        """Put the rows of the last version's files into one file, as OPTIMIZE does."""
        adds = [action["add"] for action in self.actions(self.version) if "add" in action]
        rows = [row for add in adds for row in self.rows_of(add["path"])]
        at_ms = int(time.time() * 1_000)
        removes = [{"remove": {"path": add["path"], "deletionTimestamp": at_ms, "dataChange": False}} for add in adds]
        self._commit([*removes, {"add": self._written(rows, changes=False)}])

    def add_column(self, name: str) -> None:
        self._columns[name] = "string"
        self._commit([self._metadata()])

    def actions(self, version: int) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.log / f"{version:020}.json").read_text().splitlines()]

    def rows_of(self, path: str) -> Iterator[Row]:
        content = pq.read_table(self.folder / path)
        yield from zip(content["ingested_at"].cast(pa.int64()).to_pylist(), content["body"].to_pylist(), strict=True)

    def rows_between(self, first: tuple[int, int], last: tuple[int, int]) -> Iterator[Row]:
        """The rows of the files after the place `first` up to `last`: a version, and a file's number in it."""
        for version in range(max(first[0], 0), min(last[0], self.version) + 1):
            for index, action in enumerate(self.actions(version)):
                if "add" in action and action["add"]["dataChange"] and first < (version, index) <= last:
                    yield from self.rows_of(action["add"]["path"])

    def _metadata(self) -> dict[str, Any]:
        fields = [
            {"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in self._columns.items()
        ]
        schema = json.dumps({"type": "struct", "fields": fields})
        described = {"id": self._id, "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
        return {"metaData": described | {"partitionColumns": [], "configuration": {}, "createdTime": 0}}

    def _written(self, rows: Iterable[Row], *, changes: bool) -> dict[str, Any]:
        """Write a file of rows, and return the entry of the log for it."""
        columns = dict(zip(_COLUMNS, zip(*rows, strict=True), strict=True))
        arrays = {
            name: pa.array(values, pa.int64() if name == "ingested_at" else None) for name, values in columns.items()
        }
        content = pa.table({name: array.cast(_TYPES[self._columns[name]]) for name, array in arrays.items()})
        path = self.folder / f"part-{uuid.uuid4()}.parquet"
        pq.write_table(content, path)
        size, at_ms = path.stat().st_size, int(time.time() * 1_000)
        entry = {"path": path.name, "partitionValues": {}, "size": size, "modificationTime": at_ms}
        return entry | {"dataChange": changes}

    def _commit(self, actions: Sequence[dict[str, Any]]) -> None:
        text = "".join(f"{json.dumps(action)}\n" for action in actions)
        hidden = self.log / f".{uuid.uuid4()}.tmp"
        hidden.write_text(text)
        os.link(hidden, self.log / f"{self.version + 1:020}.json")
        hidden.unlink()
        self.version += 1


class Tables:
    """The rows that micro-batches read of the tables, by stream."""

    def __init__(self, tables: dict[str, Bronze]) -> None:
        self._tables = tables

    def messages_of(self, batch: Batch) -> Iterator[Message]:
        for at, stream in enumerate(sorted(self._tables)):
            first, _ = _place(batch.offsets_before, at)
            last, complete = _place(batch.offsets, at)
            for ingested_us, value in self._tables[stream].rows_between(first, last):
                size = None if value is None else len(value)
                yield Message(stream, None, complete, None, ingested_us // 1_000, value, size)

    def are_read_by(self, batch: Batch) -> bool:
        """Whether a micro-batch has reached the end of each table."""
        return all(
            _place(batch.offsets, at)[1] == self._tables[stream].version
            for at, stream in enumerate(sorted(self._tables))
        )


def _place(offsets: Sequence[str], at: int) -> tuple[tuple[int, int], int]:
    """How far a source was read: the last version and file, and the newest version that is complete."""
    if at >= len(offsets) or offsets[at] == "-":
        return (-1, -1), -1
    offset = json.loads(offsets[at])
    assert not offset["isStartingVersion"]  # the tests' tables are small at the first start
    return (offset["reservoirVersion"], offset["index"]), offset["reservoirVersion"] - 1
