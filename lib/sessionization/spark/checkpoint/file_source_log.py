"""The log of a file source in a query's checkpoint: which of its micro-batches took which file.

Spark's source, which reads files at a URI, never removes an entry. It holds all of them in memory, and writes all of
them again every tenth micro-batch that takes a file. So entries of deleted files are removed here, while the query is
stopped. The source of this library writes a log of the same form (`file_log.FileLog`), with more in each entry.
"""

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from sessionization.durations import HOUR_MS
from sessionization.errors import CheckpointError
from sessionization.files import write_atomically
from sessionization.hadoop_path import AnyPath, path_of_uri
from sessionization.spark.checkpoint.spark_logs import (
    StartedBatch,
    has_unfinished_batch,
    newest_committed_batch,
    newest_started_batch,
    read_started_batch,
)

LARGE_LOG_BYTES = 4 * 1024 * 1024
"""Some thirty thousand entries, which Spark reads and writes in a tenth of a second."""
RECENT_MS = HOUR_MS
"""How long the entry of a file stays that is no longer there: a listing may leave out a file for a moment."""
SPARKS_VERSION = "v1"
OUR_VERSION = "files"
"""The first word of a file that this library's source writes; the number of its entries follows."""
LOG_FILE = re.compile(r"(\d+)(\.compact)?")


@dataclass(frozen=True, slots=True)
class TakenFile:
    """A file that a source took, and the entry of the source's log that has it.

    `modified_ms` and `size` are the file's when it was taken. `taken_ms` is the source's own clock then. Spark's log
    has neither clock nor size: `taken_ms` is then the modification time, and `size` None.
    """

    uri: str
    modified_ms: int
    number: int
    taken_ms: int
    size: int | None = None

    @property
    def path(self) -> AnyPath:
        return path_of_uri(self.uri)

    @property
    def stream(self) -> str:
        return self.path.parent.name

    def to_json(self) -> str:
        return json.dumps({
            "path": self.uri, "timestamp": self.modified_ms, "batchId": self.number,
            "taken": self.taken_ms, "size": self.size,
        })  # fmt: skip

    @classmethod
    def from_json(cls, line: str) -> "TakenFile":
        entry: dict[str, Any] = json.loads(line)
        modified_ms = int(entry["timestamp"])
        return cls(
            entry["path"], modified_ms, int(entry["batchId"]), int(entry.get("taken", modified_ms)), entry.get("size")
        )


def committed_files(query: AnyPath) -> Iterator[TakenFile]:
    """The files that committed micro-batches of a query took.

    Raises `ValueError`, `LookupError`, `TypeError` or `OSError` where the log has another form or cannot be read, and
    `CheckpointError` as `spark_logs` does.
    """
    source_log, last_committed = _source_log(query, newest_committed_batch(query))
    return (file for file in _entries(source_log) if file.number <= last_committed)


def interrupted_files(query: AnyPath) -> Iterator[TakenFile]:
    """The files of the micro-batch that a stopped query did not commit; the errors are those of `committed_files`."""
    if not has_unfinished_batch(query):
        return iter(())
    _, last_committed = _source_log(query, newest_committed_batch(query))
    source_log, last_started = _source_log(query, newest_started_batch(query))
    return (file for file in _entries(source_log) if last_committed < file.number <= last_started)


def _entries(source_log: AnyPath | None) -> Iterator[TakenFile]:
    if source_log is None or not source_log.is_dir():
        return
    log_files = [
        (int(match[1]), match[2], entry) for entry in source_log.iterdir() if (match := LOG_FILE.fullmatch(entry.name))
    ]
    compacted = max((number for number, is_compact, _ in log_files if is_compact), default=-1)
    for number, is_compact, file in log_files:
        if number > compacted or (number == compacted and is_compact):
            yield from map(TakenFile.from_json, _read_lines(file))


def log_bytes(query: AnyPath) -> int:
    """The size of the newest compacted file of a query's file source, which has nearly all entries; 0 without one."""
    try:
        compacted = _newest_compacted(query)
        return 0 if compacted is None else compacted.stat().st_size
    except OSError:  # Spark has just removed it, or the disk is gone, which the query itself notices
        return 0


def forget_deleted_files(query: AnyPath, present: Collection[AnyPath], now_ms: int) -> int:
    """Remove the entries of files that no longer exist; the query must not run.

    Another file of the same name would be taken again. So an entry stays for an hour after the file's modification
    time. All entries of a folder stay that holds none of the files that were taken from it: a folder on a lost mount is
    empty too. So do the entries of an uncommitted micro-batch.

    Args:
        query: the checkpoint of the query.
        present: the files in the input folder.
        now_ms: the current time.

    Returns:
        How many entries were removed.

    Raises `CheckpointError` where the log has another form or cannot be written; nothing is changed then.
    """
    try:
        compacted = _newest_compacted(query)
        if compacted is None:
            return 0
        _, last_committed = _source_log(query, newest_committed_batch(query))
        lines = list(_read_lines(compacted))
        taken = [TakenFile.from_json(line) for line in lines]
        folders = {file.path.parent for file in taken if file.path in present}
        remaining = [
            line
            for line, file in zip(lines, taken, strict=True)
            if file.path in present
            or file.path.parent not in folders
            or file.number > last_committed
            or file.taken_ms > now_ms - RECENT_MS
        ]
        if len(remaining) < len(lines):
            compacted.with_name(f".{compacted.name}.crc").unlink(missing_ok=True)  # the checksum of the former content
            # An incomplete log would let the query read files again.
            write_atomically(compacted, "\n".join([SPARKS_VERSION, *remaining]), may_copy=False)
        return len(lines) - len(remaining)
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
    files = [file for file in query.glob("sources/*/*.compact") if LOG_FILE.fullmatch(file.name)]
    return max(files, key=lambda file: int(file.stem), default=None)


def _read_lines(file: AnyPath) -> Iterator[str]:
    lines = read_lines(file)
    if lines is None:
        msg = f"{file.name} of the file log is incomplete"
        raise ValueError(msg)
    return iter(lines)


def read_lines(file: AnyPath) -> list[str] | None:
    """The entries of a file of the log; None where a kill has cut it off.

    Raises `ValueError` for a form that neither source writes.
    """
    text = file.read_text(encoding="utf-8")
    first, *lines = text.splitlines() or [""]
    lines = [line for line in lines if line.strip()]
    if first == SPARKS_VERSION:
        return lines
    if text.endswith("\n") and first == f"{OUR_VERSION} {len(lines)}":
        return lines
    if not OUR_VERSION.startswith(first[: len(OUR_VERSION)]):
        msg = f"{file.name} of the file log is {first!r}"
        raise ValueError(msg)
    return None
