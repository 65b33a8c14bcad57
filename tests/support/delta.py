"""Reads Delta tables without Spark: any reader must be able to, and it takes a fraction of the time."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.support.deletion_vectors import deleted_rows

_CHUNK = 50_000


@dataclass(frozen=True)
class Stored:
    """Rows of a table, in as little memory as Arrow takes; timestamps as milliseconds in columns that end in `_ms`."""

    content: pa.Table

    def __len__(self) -> int:
        return int(self.content.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for part in self.content.to_batches(max_chunksize=_CHUNK):
            yield from part.to_pylist()

    def of(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """The rows with only these columns, in this order."""
        if not len(self):  # a table without files has no columns either
            return
        for part in self.content.select(names).to_batches(max_chunksize=_CHUNK):
            yield from zip(*(column.to_pylist() for column in part.columns), strict=True)


def read_table(table: Path) -> Stored:
    """A table's rows, without its internal columns."""
    fields: list[dict[str, Any]] = []
    for action in _actions(table):
        if "metaData" in action:
            fields = json.loads(action["metaData"]["schemaString"])["fields"]
    names = [field["name"] for field in fields if not field["name"].startswith("_")]
    parts = [
        _normalized(_rows_of_file(table, file), file["partitionValues"], names) for file in live_files(table).values()
    ]
    return Stored(pa.concat_tables(parts, promote_options="default") if parts else pa.table({}))


def _rows_of_file(table: Path, file: dict[str, Any]) -> pa.Table:
    content = pq.ParquetFile(table / unquote(file["path"])).read()
    if file.get("deletionVector") is None:
        return content
    is_present = np.ones(content.num_rows, dtype=bool)
    is_present[deleted_rows(table, file["deletionVector"])] = False
    return content.filter(pa.array(is_present))


def _normalized(content: pa.Table, partition: dict[str, Any], names: Sequence[str]) -> pa.Table:
    """One file's rows with the values of its partition, dates as text."""
    columns = {}
    for name in names:
        if name in partition:
            column = pa.repeat(pa.scalar(partition[name], pa.string()), content.num_rows)
        elif name in content.column_names:
            column = content[name]
        else:  # the file is older than the column
            column = pa.nulls(content.num_rows)
        if pa.types.is_date(column.type):
            column = column.cast(pa.string())
        if pa.types.is_timestamp(column.type):
            # A time that is not a whole number of milliseconds shows its fraction.
            column = pc.divide(column.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.float64()), 1_000.0)
            name = f"{name.removesuffix('_at')}_ms"  # noqa: PLW2901
        columns[name] = column
    return pa.table(columns)


def live_files(table: Path) -> dict[str, dict[str, Any]]:
    """The log entries of the files that hold the table's rows, by path."""
    live: dict[str, dict[str, Any]] = {}
    for action in _actions(table):
        match action:
            case {"add": file}:
                live[file["path"]] = file
            case {"remove": file}:
                # Another deletion vector of a file is an `add` and a `remove` of the same path.
                removed = live.get(file["path"])
                if removed is not None and removed.get("deletionVector") == file.get("deletionVector"):
                    del live[file["path"]]
    return live


def _actions(table: Path) -> Iterator[dict[str, Any]]:
    """The log from its first entry on, or from a checkpoint of the log if older entries were cleaned up."""
    log = table / "_delta_log"
    entries = {int(path.stem): path for path in log.glob("*.json")}
    first = min(entries, default=0)
    if first > 0:
        first = min(
            version
            for path in log.glob("*.checkpoint.parquet")
            if (version := int(path.name.partition(".")[0])) + 1 >= first
        )
        yield from _actions_of_checkpoint(log / f"{first:020}.checkpoint.parquet")
        first += 1
    for version in range(first, max(entries, default=-1) + 1):
        # An entry a line; `splitlines` would also break at U+2028, which a name may have.
        yield from map(json.loads, entries[version].read_text(encoding="utf-8").rstrip("\n").split("\n"))


def _actions_of_checkpoint(path: Path) -> Iterator[dict[str, Any]]:
    """The metadata and the files in a checkpoint of the log, in the form of the log's entries."""
    for part in pq.read_table(path, columns=["metaData", "add"]).to_batches(max_chunksize=_CHUNK):
        for row in part.to_pylist(maps_as_pydicts="strict"):
            if (metadata := row["metaData"]) is not None:
                yield {"metaData": metadata}
            if (file := row["add"]) is not None:
                vector = file.get("deletionVector")
                yield {"add": file | {"deletionVector": vector and _without_null(vector)}}


def _without_null(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
