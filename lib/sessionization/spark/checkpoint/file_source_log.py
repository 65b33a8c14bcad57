"""The log of Spark's file source in a query's checkpoint: which of its micro-batches took which file.

Where the input is a folder, the source's files are the takes of the job (`take_log`); at a URI they are the input's.
Spark never removes an entry. It holds all of them in memory, and writes all of them again every tenth micro-batch that
takes a file. So entries of deleted files are removed here, while the query is stopped.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import compress
from typing import Any

from sessionization.durations import HOUR_MS
from sessionization.errors import CheckpointError
from sessionization.files import replace_verified
from sessionization.hadoop_path import AnyPath, path_of_uri
from sessionization.spark.checkpoint.spark_logs import (
    StartedBatch,
    has_unfinished_batch,
    newest_committed_batch,
    newest_started_batch,
    read_started_batch,
)
from sessionization.spark.checkpoint.take_log import (
    TAKES_FOLDER,
    TakenFile,
    merged_files,
    read_takes,
    take_numbers,
)

LARGE_LOG_BYTES = 4 * 1024 * 1024
"""Some thirty thousand entries, which Spark reads and writes in a tenth of a second."""
_RECENT_MS = HOUR_MS
_VERSION = "v1"
_LOG_FILE = re.compile(r"(\d+)(\.compact)?")


@dataclass(frozen=True, slots=True)
class _Entry:
    """A file that the source took: its URI, its modification time then, and its entry in the source's log."""

    uri: str
    modified_ms: int
    number: int

    @property
    def path(self) -> AnyPath:
        return path_of_uri(self.uri)


def committed_files(query: AnyPath) -> Iterator[TakenFile]:
    """The input files that committed micro-batches of a query took. At a URI `taken_ms` is the modification time.

    Raises `ValueError`, `LookupError`, `TypeError` or `OSError` where the log has another form or cannot be read, and
    `CheckpointError` as `spark_logs` does.
    """
    takes_folder = _takes_folder(query)
    if takes_folder is not None:
        yield from merged_files(takes_folder)
    yield from _input_files(query, _committed_entries(query))


def committed_takes(query: AnyPath) -> set[int]:
    """The takes that committed micro-batches of a query have read; the errors are those of `committed_files`."""
    return {int(entry.path.stem) for entry in _committed_entries(query)}


def interrupted_files(query: AnyPath) -> Iterator[TakenFile]:
    """The files of the micro-batch that a stopped query did not commit; the errors are those of `committed_files`."""
    if not has_unfinished_batch(query):
        return iter(())
    _, last_committed = _source_log(query, newest_committed_batch(query))
    source_log, last_started = _source_log(query, newest_started_batch(query))
    entries = (entry for entry in _entries(source_log) if last_committed < entry.number <= last_started)
    return _input_files(query, entries)


def _takes_folder(query: AnyPath) -> AnyPath | None:
    folder = query.parent / TAKES_FOLDER
    return folder if folder.is_dir() else None


def _committed_entries(query: AnyPath) -> Iterator[_Entry]:
    source_log, last_committed = _source_log(query, newest_committed_batch(query))
    return (entry for entry in _entries(source_log) if entry.number <= last_committed)


def _input_files(query: AnyPath, entries: Iterable[_Entry]) -> Iterator[TakenFile]:
    """The input files behind entries of the source's log; a take that is merged has none here."""
    takes_folder = _takes_folder(query)
    if takes_folder is None:
        return (TakenFile(entry.uri, entry.modified_ms, entry.modified_ms) for entry in entries)
    return _files_of_takes(takes_folder, {int(entry.path.stem) for entry in entries})


def _files_of_takes(folder: AnyPath, numbers: set[int]) -> Iterator[TakenFile]:
    for number in numbers.intersection(take_numbers(folder)):
        with suppress(FileNotFoundError):  # a running job has just merged it
            yield from read_takes(folder, [number])


def _entries(source_log: AnyPath | None) -> Iterator[_Entry]:
    if source_log is None:
        return
    log_files = [
        (int(match[1]), match[2], entry) for entry in source_log.iterdir() if (match := _LOG_FILE.fullmatch(entry.name))
    ]
    compacted = max((number for number, is_compact, _ in log_files if is_compact), default=-1)
    for number, is_compact, file in log_files:
        if number > compacted or (number == compacted and is_compact):
            yield from map(_parse_entry, _read_lines(file))


def log_bytes(query: AnyPath) -> int:
    """The size of the newest compacted file of a query's file source, which has nearly all entries; 0 without one."""
    try:
        compacted = _newest_compacted(query)
        return 0 if compacted is None else compacted.stat().st_size
    except OSError:  # Spark has just removed it, or the disk is gone, which the query itself notices
        return 0


def forget_merged_takes(query: AnyPath) -> int:
    """Remove the entries of takes that are merged and deleted; the query must not run. Returns their number.

    Raises `CheckpointError` where the log has another form or cannot be written; nothing is changed then.
    """

    def remaining(entries: list[_Entry], _last_committed: int) -> list[bool]:
        # The oldest takes go first. The newest may not be listed yet, and would be read again without its entry.
        oldest = min(take_numbers(query.parent / TAKES_FOLDER), default=0)
        return [int(entry.path.stem) >= oldest for entry in entries]

    return _shorten(query, remaining)


def forget_deleted_files(query: AnyPath, present: Collection[AnyPath], now_ms: int) -> int:
    """Remove the entries of files at a URI that no longer exist; the query must not run. Returns their number.

    Another file of the same name would be taken again. So an entry stays for an hour after the file's modification
    time. All entries of a folder stay that holds none of the files that were taken from it: a folder on a lost mount is
    empty too. So do the entries of an uncommitted micro-batch.

    Args:
        query: the checkpoint of the query.
        present: the files in the input folder.
        now_ms: the current time.

    Raises `CheckpointError` as `forget_merged_takes` does.
    """

    def remaining(entries: list[_Entry], last_committed: int) -> list[bool]:
        folders = {entry.path.parent for entry in entries if entry.path in present}
        return [
            entry.path in present
            or entry.path.parent not in folders
            or entry.number > last_committed
            or entry.modified_ms > now_ms - _RECENT_MS
            for entry in entries
        ]

    return _shorten(query, remaining)


def _shorten(query: AnyPath, remaining: Callable[[list[_Entry], int], list[bool]]) -> int:
    """Remove entries of the newest compacted file.

    `remaining` says of each entry whether it stays; it also gets the last one that a committed micro-batch took.
    """
    try:
        compacted = _newest_compacted(query)
        if compacted is None:
            return 0
        _, last_committed = _source_log(query, newest_committed_batch(query))
        lines = list(_read_lines(compacted))
        stays = remaining(list(map(_parse_entry, lines)), last_committed)
        if not all(stays):
            compacted.with_name(f".{compacted.name}.crc").unlink(missing_ok=True)  # the checksum of the former content
            # An incomplete log would let the query read files again.
            replace_verified(compacted, "\n".join([_VERSION, *compress(lines, stays)]))
        return stays.count(False)
    except (OSError, ValueError, LookupError, TypeError) as error:
        msg = f"{query}: the log of the files that were read is not of a form known here ({error})"
        raise CheckpointError(msg) from error


def _source_log(query: AnyPath, batch_id: int) -> tuple[AnyPath | None, int]:
    """The folder of the source's log, and its last entry that a micro-batch took; -1 before the first."""
    if batch_id < 0:
        return None, -1
    number, last_entry = _file_source(read_started_batch(query, batch_id))
    return query / "sources" / str(number), last_entry


def _file_source(batch: StartedBatch) -> tuple[int, int]:
    """The number of the source that reads files, and the last entry of its log that a micro-batch took, or -1."""
    for number, offset in enumerate(batch.sources):
        if isinstance(offset, dict) and "logOffset" in offset:
            return number, int(offset["logOffset"])
    return 0, -1


def _newest_compacted(query: AnyPath) -> AnyPath | None:
    files = [file for file in query.glob("sources/*/*.compact") if _LOG_FILE.fullmatch(file.name)]
    return max(files, key=lambda file: int(file.stem), default=None)


def _read_lines(file: AnyPath) -> Iterator[str]:
    with file.open(encoding="utf-8") as lines:
        version = next(lines, "").strip()
        if version != _VERSION:
            msg = f"{file.name} of the file log is {version!r}"
            raise ValueError(msg)
        yield from (line.rstrip("\n") for line in lines if line.strip())


def _parse_entry(line: str) -> _Entry:
    entry: dict[str, Any] = json.loads(line)
    return _Entry(entry["path"], int(entry["timestamp"]), int(entry["batchId"]))
