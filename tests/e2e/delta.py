"""Delta tables read without Spark: any reader must be able to, and it takes a fraction of the time."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow.parquet import ParquetFile


def rows_of(table: Path) -> list[dict[str, Any]]:
    """The rows by column, internal columns left out; timestamps as microseconds since 1970, dates as text."""
    names: list[str] = []
    for action in _actions(table):
        if "metaData" in action:
            names = [field["name"] for field in json.loads(action["metaData"]["schemaString"])["fields"]]
    rows = []
    for path, partition in live_files(table).items():
        rows += [partition | row for row in _rows_of_file(table / unquote(path))]
    return [{name: row[name] for name in names if not name.startswith("_")} for row in rows]


def live_files(table: Path) -> dict[str, dict[str, Any]]:
    """The files that hold the table's rows, with the values of their partition."""
    live: dict[str, dict[str, Any]] = {}
    for action in _actions(table):
        match action:
            case {"add": file}:
                # Nothing here knows how to skip the rows that such a vector marks as deleted.
                assert file.get("deletionVector") is None
                live[file["path"]] = file["partitionValues"]
            case {"remove": file}:
                del live[file["path"]]
    return live


def _actions(table: Path) -> Iterator[dict[str, Any]]:
    """The log from its first entry; it keeps them for days."""
    for version, path in enumerate(sorted((table / "_delta_log").glob("*.json"))):
        assert int(path.stem) == version
        yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def _rows_of_file(path: Path) -> list[dict[str, Any]]:
    columns = {}
    content = ParquetFile(path).read()
    for name in content.column_names:
        column = content[name]
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us")).cast(pa.int64())
        elif pa.types.is_date(column.type):
            column = column.cast(pa.string())
        columns[name] = column
    return pa.table(columns).to_pylist()


def last_batch_in(table: Path, query: str) -> int:
    """The newest micro-batch of a query whose rows the table has, by what its writer told Delta; -1 before the first."""
    batches = [
        action["txn"]["version"]
        for action in _actions(table)
        if "txn" in action and action["txn"]["appId"].endswith(f"/{query}")
    ]
    return max(batches, default=-1)
