"""Delete input files that are old enough and that both queries have read.

Spark's own `cleanSource` knows one query, but here two queries read the same files. So both checkpoints are read: the
logs of Spark's file source list which micro-batch took which file. An unknown form of these logs deletes nothing.
"""

import json
import threading

from sessionization.errors import CheckpointError
from sessionization.event_map.reading import DEFAULT, stored_map
from sessionization.hadoop_path import AnyPath, parse_location
from sessionization.spark.checkpoint.file_source_log import committed_files
from sessionization.spark.checkpoint.folder import ARCHIVE, EVENTS, LAYOUT_FILE, SESSIONIZE
from sessionization.spark.input.source import input_files

_SECOND_MS = 1_000
"""The tolerance of modification times: not every file system stores milliseconds."""


def delete_read_files(checkpoints: AnyPath, retention_ms: int, now_ms: int, stop: threading.Event) -> int:
    """Delete input files that both queries took and committed, the later one more than `retention_ms` ago.

    The job's own clock counts, because a file's modification time may be any. (Spark's source, which reads a URI, does
    not log when it took a file: there the modification time counts.) No micro-batch that may be repeated reads such a
    file, and its messages are in `raw_events`. A file that was replaced after it was read is not deleted. Nothing is
    deleted where the checkpoint reads from Kafka.

    Args:
        checkpoints: the sessionize job's folder.
        retention_ms: how long a file stays after it was taken.
        now_ms: the time now.
        stop: ends the deletion between two files.

    Returns:
        How many files were deleted.

    Raises `CheckpointError` where the checkpoint cannot be read, or a file cannot be deleted.
    """
    count = 0
    try:
        layout = json.loads((checkpoints / LAYOUT_FILE).read_text(encoding="utf-8"))
        pinned, events = layout["pinned"], stored_map(layout.get(EVENTS, DEFAULT))
        if pinned["source"] != "files" or events is None:
            return 0
        files = input_files(parse_location(pinned["input"]), events.stream_names)
        old = {file: file.stat().st_mtime_ns // 1_000_000 for file in files}
        for query in (SESSIONIZE, ARCHIVE):
            read = {
                file.path
                for file in committed_files(checkpoints / query)
                if file.taken_ms < now_ms - retention_ms
                and file.path in old
                and old[file.path] <= file.modified_ms + _SECOND_MS
            }
            old = {path: modified_ms for path, modified_ms in old.items() if path in read}
        for file in old:
            if stop.is_set():
                break
            file.unlink(missing_ok=True)
            count += 1
    except OSError as error:
        msg = f"{error.filename or checkpoints} cannot be read or deleted ({error.strerror}): see to its permissions"
        raise CheckpointError(msg) from error
    except (ValueError, LookupError, TypeError) as error:
        msg = f"--checkpoints {checkpoints} is not of a form known here ({error}): leave --input-retention out"
        raise CheckpointError(msg) from error
    return count
