"""Input files that nobody needs any more: both queries are through with them, and they are old enough.

Spark's own `cleanSource` knows one query; here two read the same files. So it is read from both checkpoints, as Spark's file
source keeps them, which micro-batch took which file. What is not understood there deletes nothing.
"""

import json
import re
import threading
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sessionization.errors import CheckpointError
from sessionization.spark.checkpoint.folder import ARCHIVE, LAYOUT_FILE, SESSIONIZE
from sessionization.spark.checkpoint.spark_logs import StartedBatch, newest_committed_batch, read_started_batch
from sessionization.spark.input.source import input_files

_VERSION = "v1"
_LOG_FILE = re.compile(r"(\d+)(\.compact)?")
_SECOND_MS = 1_000


def delete_read_files(checkpoints: Path, retention_ms: int, now_ms: int, stop: threading.Event) -> int:
    """Delete input files whose micro-batches both queries have committed, and that are older than `retention_ms`.

    No micro-batch that may still be repeated reads them, and their messages are in `raw_events`. A file that was replaced
    after it was read is left, and so is all where the checkpoint reads from Kafka.

    Args:
        checkpoints: the sessionize job's folder.
        retention_ms: how old a file must be, by its modification time.
        now_ms: the time now.
        stop: ends it between two files.

    Returns:
        How many were deleted.

    Raises `CheckpointError` where the checkpoint cannot be read, or a file cannot be deleted.
    """
    try:
        fixed = json.loads((checkpoints / LAYOUT_FILE).read_text(encoding="utf-8"))["fixed"]
        if fixed["source"] != "files":
            return 0
        old = dict(_older_than(now_ms - retention_ms, Path(fixed["input"])))
        for query in (SESSIONIZE, ARCHIVE):
            taken = _taken(checkpoints / query, old.keys())
            # A second's grace: not every file system keeps milliseconds.
            old = {file: ms for file, ms in old.items() if file in taken and ms <= taken[file] + _SECOND_MS}
        return _delete(old, stop)
    except OSError as error:
        msg = f"{error.filename or checkpoints} cannot be read or deleted ({error.strerror}): see to its permissions"
        raise CheckpointError(msg) from error
    except (ValueError, LookupError, TypeError) as error:
        msg = f"--checkpoints {checkpoints} is not of a form known here ({error}): leave --input-retention out"
        raise CheckpointError(msg) from error


def _older_than(cutoff_ms: int, input_folder: Path) -> Iterator[tuple[Path, int]]:
    for file in input_files(input_folder):
        modified_ms = file.stat().st_mtime_ns // 1_000_000
        if modified_ms < cutoff_ms:
            yield file, modified_ms


def _delete(files: dict[Path, int], stop: threading.Event) -> int:
    count = 0
    for file in files:
        if stop.is_set():
            break
        file.unlink(missing_ok=True)
        count += 1
    return count


def _taken(query: Path, among: Container[Path]) -> dict[Path, int]:
    """Of the files `among`, those of the query's committed micro-batches, with their modification times then."""
    committed = newest_committed_batch(query)
    if committed < 0:
        return {}
    number, last = _file_source(read_started_batch(query, committed))
    taken: dict[Path, int] = {}
    for entry in _entries(query / "sources" / str(number)):
        file = Path(unquote(urlsplit(entry["path"]).path))
        if entry["batchId"] <= last and file in among:
            taken[file] = max(int(entry["timestamp"]), taken.get(file, 0))
    return taken


def _file_source(batch: StartedBatch) -> tuple[int, int]:
    """The number of the source that reads files, and how far in its own log a micro-batch went, -1 if nowhere."""
    for number, offset in enumerate(batch.sources):
        if isinstance(offset, dict) and "logOffset" in offset:
            return number, int(offset["logOffset"])
    return 0, -1


def _entries(log: Path) -> Iterator[dict[str, Any]]:
    """The entries of a file source's log: those of the newest compacted file, and what came after it."""
    named = [(int(match[1]), match[2], entry) for entry in log.iterdir() if (match := _LOG_FILE.fullmatch(entry.name))]
    compacted = max((number for number, is_compact, _ in named if is_compact), default=-1)
    for number, is_compact, file in named:
        if number < compacted or (number == compacted and not is_compact):
            continue
        with file.open(encoding="utf-8") as lines:
            version = next(lines, "").strip()
            if version != _VERSION:
                msg = f"{file.name} of the file log is {version!r}"
                raise ValueError(msg)
            yield from (json.loads(line) for line in lines if line.strip())
