"""Delete input files that are old enough and that both queries have read.

Spark's own `cleanSource` knows one query, but here two queries read the same files. So both checkpoints are read: the
logs of Spark's file source list which micro-batch took which file. An unknown form of these logs deletes nothing.
"""

import json
import threading
from collections.abc import Container, Iterator

from sessionization.errors import CheckpointError
from sessionization.hadoop_path import AnyPath, parse_location
from sessionization.spark.checkpoint.file_source_log import committed_files
from sessionization.spark.checkpoint.folder import ARCHIVE, SESSIONIZE
from sessionization.spark.checkpoint.layout_file import LAYOUT_FILE
from sessionization.spark.input.source import input_files

_SECOND_MS = 1_000


def delete_read_files(checkpoints: AnyPath, retention_ms: int, now_ms: int, stop: threading.Event) -> int:
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
        old = dict(_older_than(now_ms - retention_ms, parse_location(layout["input"])))
        for query in (SESSIONIZE, ARCHIVE):
            taken_ms = _committed_files(checkpoints / query, old.keys())
            # One second of tolerance: not every file system stores milliseconds.
            old = {file: ms for file, ms in old.items() if file in taken_ms and ms <= taken_ms[file] + _SECOND_MS}
        return _delete(old, stop)
    except OSError as error:
        msg = f"{error.filename or checkpoints} cannot be read or deleted ({error.strerror}): see to its permissions"
        raise CheckpointError(msg) from error
    except (ValueError, LookupError, TypeError) as error:
        msg = f"--checkpoints {checkpoints} is not of a form known here ({error}): leave --input-retention out"
        raise CheckpointError(msg) from error


def _older_than(cutoff_ms: int, input_folder: AnyPath) -> Iterator[tuple[AnyPath, int]]:
    for file in input_files(input_folder):
        modified_ms = file.stat().st_mtime_ns // 1_000_000
        if modified_ms < cutoff_ms:
            yield file, modified_ms


def _delete(files: dict[AnyPath, int], stop: threading.Event) -> int:
    count = 0
    for file in files:
        if stop.is_set():
            break
        file.unlink(missing_ok=True)
        count += 1
    return count


def _committed_files(query: AnyPath, candidates: Container[AnyPath]) -> dict[AnyPath, int]:
    """The `candidates` that the query's committed micro-batches took, with their modification times at that moment."""
    modified_ms: dict[AnyPath, int] = {}
    for file in committed_files(query):
        if file.path in candidates:
            modified_ms[file.path] = max(file.modified_ms, modified_ms.get(file.path, 0))
    return modified_ms
