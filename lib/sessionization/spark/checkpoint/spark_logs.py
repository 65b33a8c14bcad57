"""Spark's own files in a query's checkpoint: its logs of micro-batches, and the log of its file source.

Their form is private to Spark, as of Spark 4.2, and only this module knows it. Spark has no public way to ask a stopped
query what it has read and committed, and none to forget the files that it has read. A listing of micro-batches with
their offsets, and a bound on the file source's log (`cleanSource` bounds only the folder), would replace this module.

Functions raise `CheckpointError` where they cannot read a log of micro-batches.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import compress
from typing import Any

from sessionization.errors import CheckpointError
from sessionization.files import newest_number, replace_verified
from sessionization.hadoop_path import AnyPath, path_of_uri

_VERSION = "v1"
_SOURCE_LOG_FILE = re.compile(r"(\d+)(\.compact)?")
_NO_OFFSET = "-"
_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, slots=True)
class StartedBatch:
    """A micro-batch as Spark logged it before the start.

    `partitions` is None where Spark did not store their number. `sources` has an end position per source, as the
    source writes it, or None where the micro-batch reads nothing of the source.
    """

    clock_ms: int
    partitions: int | None
    sources: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """A file that the file source took: its URI, its modification time then, and its entry in the source's log."""

    uri: str
    modified_ms: int
    number: int

    @property
    def path(self) -> AnyPath:
        return path_of_uri(self.uri)


def newest_started_batch(query: AnyPath) -> int:
    """Return the newest started micro-batch of a query, -1 before the first."""
    return _newest(query / "offsets")


def oldest_started_batch(query: AnyPath) -> int:
    """Return the oldest started micro-batch of a query that its log still holds, -1 before the first."""
    return min(_batch_ids(query / "offsets"), default=-1)


def newest_committed_batch(query: AnyPath) -> int:
    """Return the newest committed micro-batch of a query, -1 before the first."""
    return _newest(query / "commits")


def has_unfinished_batch(query: AnyPath) -> bool:
    """Return whether a stopped query has an uncommitted micro-batch, which the next start repeats."""
    return newest_started_batch(query) != newest_committed_batch(query)


def read_started_batch(query: AnyPath, batch_id: int) -> StartedBatch:
    """Read a started micro-batch from the log; raises `CheckpointError` also for an unknown format."""
    file = query / "offsets" / str(batch_id)
    try:
        return _parse_entry(*file.read_text(encoding="utf-8").splitlines())
    except OSError as error:
        raise _not_readable(file, error) from error
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        msg = f"{file} is not an offset log ({error}): restore the checkpoint from a backup, or give a new folder"
        raise CheckpointError(msg) from error


def remove_partial_first_entry(query: AnyPath) -> None:
    """Remove the partial files of an offset log whose very first entry was cut off by a full disk or a kill.

    Spark never starts a query again whose log holds only such a file. Next to a later entry Spark ignores it.
    """
    offsets = query / "offsets"
    try:
        if offsets.is_dir() and newest_started_batch(query) < 0:
            for entry in offsets.iterdir():
                if entry.name.startswith(".") and entry.name.endswith((".tmp", ".tmp.crc")):
                    entry.unlink()
    except OSError as error:
        msg = f"{offsets} cannot be cleared of what a cut-off start left ({error.strerror}): see to its permissions"
        raise CheckpointError(msg) from error


def source_entries(query: AnyPath, batch_id: int) -> Iterator[SourceEntry]:
    """The files that a query's file source took up to a micro-batch; none for -1.

    Raises `ValueError`, `LookupError`, `TypeError` or `OSError` where the log has another form or cannot be read.
    """
    if batch_id < 0:
        return
    last = _last_taken(read_started_batch(query, batch_id))
    folder = query / "sources" / "0"
    if last < 0:
        return
    log_files = [
        (int(match[1]), match[2], file) for file in folder.iterdir() if (match := _SOURCE_LOG_FILE.fullmatch(file.name))
    ]
    compacted = max((number for number, is_compact, _ in log_files if is_compact), default=-1)
    for number, is_compact, file in log_files:
        if number > compacted or (number == compacted and is_compact):
            yield from (entry for entry in map(_parse_source_entry, _read_source_log(file)) if entry.number <= last)


def last_source_entry(query: AnyPath, batch_id: int) -> int:
    """The last entry of the file source's log that a micro-batch took; -1 before the first."""
    return -1 if batch_id < 0 else _last_taken(read_started_batch(query, batch_id))


def newest_compacted(query: AnyPath) -> AnyPath | None:
    """The newest compacted file of a query's file source, which has nearly all entries."""
    files = [file for file in (query / "sources" / "0").glob("*.compact") if _SOURCE_LOG_FILE.fullmatch(file.name)]
    return max(files, key=lambda file: int(file.stem), default=None)


def shorten_source_log(query: AnyPath, remaining: Callable[[list[SourceEntry], int], list[bool]]) -> int:
    """Remove entries of the newest compacted file; the query must not run. Returns their number.

    `remaining` says of each entry whether it stays; it also gets the last one that a committed micro-batch took.

    Raises `CheckpointError` where the log has another form or cannot be written; nothing is changed then.
    """
    try:
        compacted = newest_compacted(query)
        if compacted is None:
            return 0
        last_committed = last_source_entry(query, newest_committed_batch(query))
        lines = _read_source_log(compacted)
        stays = remaining(list(map(_parse_source_entry, lines)), last_committed)
        if not all(stays):
            compacted.with_name(f".{compacted.name}.crc").unlink(missing_ok=True)  # the checksum of the former content
            # An incomplete log would let the query read files again.
            replace_verified(compacted, "\n".join([_VERSION, *compress(lines, stays)]))
        return stays.count(False)
    except (OSError, ValueError, LookupError, TypeError) as error:
        msg = f"{query}: the log of the files that were read is not of a form known here ({error})"
        raise CheckpointError(msg) from error


def _last_taken(batch: StartedBatch) -> int:
    """The last entry of the input's log that a micro-batch took; -1 before the first.

    A query's first source is its input. A warm start has another source of files behind it.
    """
    offset = batch.sources[0] if batch.sources else None
    return int(offset["logOffset"]) if isinstance(offset, dict) and "logOffset" in offset else -1


def _read_source_log(file: AnyPath) -> list[str]:
    version, *lines = file.read_text(encoding="utf-8").split("\n")
    if version != _VERSION:
        msg = f"{file.name} of the file log is {version!r}"
        raise ValueError(msg)
    return [line for line in lines if line.strip()]


def _parse_source_entry(line: str) -> SourceEntry:
    entry: dict[str, Any] = json.loads(line)
    return SourceEntry(entry["path"], int(entry["timestamp"]), int(entry["batchId"]))


def _parse_entry(version: str, metadata_json: str, *sources: str) -> StartedBatch:
    if version != _VERSION:
        msg = f"its version is {version}; spark.sql.streaming.offsetLog.formatVersion=1 writes {_VERSION}"
        raise ValueError(msg)
    metadata = json.loads(metadata_json)
    partitions = metadata.get("conf", {}).get(_PARTITIONS)
    return StartedBatch(
        int(metadata["batchTimestampMs"]),
        None if partitions is None else int(partitions),
        tuple(None if text == _NO_OFFSET else json.loads(text) for text in sources),
    )


def _newest(log: AnyPath) -> int:
    try:
        return newest_number(log, _batch_ids(log))
    except OSError as error:
        raise _not_readable(log, error) from error


def _batch_ids(log: AnyPath) -> list[int]:
    try:
        return [int(entry.name) for entry in log.iterdir() if entry.name.isdigit()] if log.is_dir() else []
    except OSError as error:
        raise _not_readable(log, error) from error


def _not_readable(path: AnyPath, error: OSError) -> CheckpointError:
    msg = f"{path} cannot be read ({error.strerror}): see to its permissions"
    return CheckpointError(msg)
