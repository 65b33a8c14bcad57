"""Delete input files that are old enough and that both queries have read.

Spark's own `cleanSource` knows one query, but here two queries read the same files. So both checkpoints are read: the
logs of Spark's file source list which micro-batch took which file. An unknown form of these logs deletes nothing.
"""

import json
import re
import threading
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sessionization.errors import CheckpointError
from sessionization.spark.checkpoint.folder import ARCHIVE, SESSIONIZE
from sessionization.spark.checkpoint.layout_file import LAYOUT_FILE
from sessionization.spark.checkpoint.spark_logs import StartedBatch, newest_committed_batch, read_started_batch
from sessionization.spark.input.source import input_files

_VERSION = "v1"
_LOG_FILE = re.compile(r"(\d+)(\.compact)?")
_SECOND_MS = 1_000


def delete_read_files(checkpoints: Path, retention_ms: int, now_ms: int, stop: threading.Event) -> int:
    """Delete input files that are older than `retention_ms`, if both queries have committed their micro-batches.

    No micro-batch that may be repeated reads such a file, and its messages are in `raw_events`. A file that was
    replaced after it was read is not deleted. Nothing is deleted where the checkpoint reads from Kafka.

    Args:
        checkpoints: the sessionize job's folder.
        retention_ms: the least age of a deleted file, by its modification time.
        now_ms: the time now.
        stop: ends the deletion between two files.

    Returns:
        How many files were deleted.

    Raises `CheckpointError` where the checkpoint cannot be read, or a file cannot be deleted.
    """
    try:
        layout = json.loads((checkpoints / LAYOUT_FILE).read_text(encoding="utf-8"))["fixed"]
        if layout["source"] != "files":
            return 0
        old = dict(_older_than(now_ms - retention_ms, Path(layout["input"])))
        for query in (SESSIONIZE, ARCHIVE):
            committed_files = _committed_files(checkpoints / query, old.keys())
            # One second of tolerance: not every file system stores milliseconds.
            old = {
                file: ms
                for file, ms in old.items()
                if file in committed_files and ms <= committed_files[file] + _SECOND_MS
            }
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


def _committed_files(query: Path, candidates: Container[Path]) -> dict[Path, int]:
    """The `candidates` that the query's committed micro-batches took, with their modification times at that moment."""
    committed = newest_committed_batch(query)
    if committed < 0:
        return {}
    source_number, last_batch = _file_source(read_started_batch(query, committed))
    committed_files: dict[Path, int] = {}
    for entry in _log_entries(query / "sources" / str(source_number)):
        file = Path(unquote(urlsplit(entry["path"]).path))
        if entry["batchId"] <= last_batch and file in candidates:
            committed_files[file] = max(int(entry["timestamp"]), committed_files.get(file, 0))
    return committed_files


def _file_source(batch: StartedBatch) -> tuple[int, int]:
    """The number of the source that reads files, and the last entry of its log that a micro-batch took, or -1."""
    for number, offset in enumerate(batch.sources):
        if isinstance(offset, dict) and "logOffset" in offset:
            return number, int(offset["logOffset"])
    return 0, -1


def _log_entries(log: Path) -> Iterator[dict[str, Any]]:
    """The entries of a file source's log: those in the newest compacted file, and in all later files."""
    log_files = [
        (int(match[1]), match[2], entry) for entry in log.iterdir() if (match := _LOG_FILE.fullmatch(entry.name))
    ]
    compacted = max((number for number, is_compact, _ in log_files if is_compact), default=-1)
    for number, is_compact, file in log_files:
        if number < compacted or (number == compacted and not is_compact):
            continue
        with file.open(encoding="utf-8") as lines:
            version = next(lines, "").strip()
            if version != _VERSION:
                msg = f"{file.name} of the file log is {version!r}"
                raise ValueError(msg)
            yield from (json.loads(line) for line in lines if line.strip())
