"""The log of Spark's file source in a query's checkpoint: which of its micro-batches took which file.

Where the input is a folder, the source's files are the takes of the job (`take_log`); at a URI they are the input's.
Spark never removes an entry. It holds all of them in memory, and writes all of them again every tenth micro-batch that
takes a file. So entries of deleted files are removed here, while the query is stopped.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

from sessionization.durations import HOUR_MS
from sessionization.hadoop_path import AnyPath
from sessionization.spark.checkpoint.spark_logs import (
    SourceEntry,
    has_unfinished_batch,
    last_source_entry,
    newest_committed_batch,
    newest_compacted,
    newest_started_batch,
    shorten_source_log,
    source_entries,
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


def committed_files(query: AnyPath) -> Iterator[TakenFile]:
    """The input files that committed micro-batches of a query took. At a URI `taken_ms` is the modification time.

    Raises `ValueError`, `LookupError`, `TypeError` or `OSError` where the log has another form or cannot be read, and
    `CheckpointError` as `spark_logs` does.
    """
    takes_folder = _takes_folder(query)
    if takes_folder is not None:
        yield from merged_files(takes_folder)
    yield from _input_files(query, source_entries(query, newest_committed_batch(query)))


def committed_takes(query: AnyPath) -> set[int]:
    """The takes that committed micro-batches of a query have read; the errors are those of `committed_files`."""
    return {int(entry.path.stem) for entry in source_entries(query, newest_committed_batch(query))}


def interrupted_files(query: AnyPath) -> Iterator[TakenFile]:
    """The files of the micro-batch that a stopped query did not commit; the errors are those of `committed_files`."""
    if not has_unfinished_batch(query):
        return iter(())
    last_committed = last_source_entry(query, newest_committed_batch(query))
    entries = source_entries(query, newest_started_batch(query))
    return _input_files(query, (entry for entry in entries if entry.number > last_committed))


def _takes_folder(query: AnyPath) -> AnyPath | None:
    folder = query.parent / TAKES_FOLDER
    return folder if folder.is_dir() else None


def _input_files(query: AnyPath, entries: Iterable[SourceEntry]) -> Iterator[TakenFile]:
    """The input files behind entries of the source's log; a take that is merged has none here."""
    takes_folder = _takes_folder(query)
    if takes_folder is None:
        yield from (TakenFile(entry.uri, entry.modified_ms, entry.modified_ms) for entry in entries)
        return
    for number in {int(entry.path.stem) for entry in entries}.intersection(take_numbers(takes_folder)):
        with suppress(FileNotFoundError):  # a running job has just merged it
            yield from read_takes(takes_folder, [number])


def log_bytes(query: AnyPath) -> int:
    """The size of the newest compacted file of a query's file source, which has nearly all entries; 0 without one."""
    try:
        compacted = newest_compacted(query)
        return 0 if compacted is None else compacted.stat().st_size
    except OSError:  # Spark has just removed it, or the disk is gone, which the query itself notices
        return 0


def forget_merged_takes(query: AnyPath) -> int:
    """Remove the entries of takes that are merged and deleted; the query must not run. Returns their number.

    Raises `CheckpointError` where the log has another form or cannot be written; nothing is changed then.
    """

    def remaining(entries: list[SourceEntry], _last_committed: int) -> list[bool]:
        # The oldest takes go first. The newest may not be listed yet, and would be read again without its entry.
        oldest = min(take_numbers(query.parent / TAKES_FOLDER), default=0)
        return [int(entry.path.stem) >= oldest for entry in entries]

    return shorten_source_log(query, remaining)


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

    def remaining(entries: list[SourceEntry], last_committed: int) -> list[bool]:
        folders = {entry.path.parent for entry in entries if entry.path in present}
        return [
            entry.path in present
            or entry.path.parent not in folders
            or entry.number > last_committed
            or entry.modified_ms > now_ms - _RECENT_MS
            for entry in entries
        ]

    return shorten_source_log(query, remaining)
