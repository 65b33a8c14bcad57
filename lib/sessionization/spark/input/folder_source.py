"""A streaming source of the lines in the streams' folders, on any disk or mount that Python reads.

Spark's own source of text files holds a whole line in memory, cannot open every name, lists folders below the
streams', and judges files by their modification times. This one takes every file once, in the order of these times,
and remembers it in a log of the same form as Spark's (`file_source_log`).

Spark runs the methods of `FolderReader` in a Python process beside the driver, and `read` in the tasks.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote_from_bytes, unquote_to_bytes

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from sessionization.clock import wall_clock_ms
from sessionization.spark.checkpoint.file_log import FileLog
from sessionization.spark.checkpoint.file_source_log import TakenFile
from sessionization.spark.input.message_lines import COMPRESSED_ENDING, FilePiece, read_messages
from sessionization.spark.input.parse import MAX_VALUE_BYTES
from sessionization.spark.input.stream_folders import list_folder
from sessionization.streams import STREAMS

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_SCHEMA = "stream string, file string, modified_ms bigint, value binary, value_bytes bigint"
_NAME = "session_files"
_OFFSET = "logOffset"
_PIECE_BYTES = 32 * 1024 * 1024
_TASK_BYTES = 2 * 1024 * 1024
_OPEN_BYTES = 256 * 1024
"""What opening a file costs, in bytes read meanwhile."""
_BATCH_ROWS = 10_000
_BATCH_BYTES = 8 * 1024 * 1024


def folder_lines(spark: SparkSession, folder: Path, query: Path, most_files: int) -> DataFrame:
    """Stream the lines of the files that are and will be in the stream folders of `folder`.

    Args:
        spark: the session.
        folder: holds the stream folders.
        query: the checkpoint of the query, in which this is the first source.
        most_files: the highest number of files in a micro-batch.

    Returns:
        `stream`; `file`, a percent-encoded URI; `modified_ms`; `value`, the line without its end, and of one that is
        longer than a message may be its first `MAX_VALUE_BYTES` + 1 bytes; `value_bytes`, its whole length. A file that
        was deleted, or is damaged, has an empty `value`.
    """
    spark.dataSource.register(FolderSource)
    options = {
        "folder": _quoted(folder.absolute()),
        "log": _quoted(query.absolute() / "sources" / "0"),
        "files": str(most_files),
        "tasks": str(spark.sparkContext.defaultParallelism),
    }
    return spark.readStream.format(_NAME).options(**options).load()


class FolderSource(DataSource):
    """The source as Spark knows it, by its name."""

    @classmethod
    def name(cls) -> str:
        return _NAME

    def schema(self) -> str:
        return _SCHEMA

    def streamReader(self, schema: StructType) -> "FolderReader":  # noqa: N802, ARG002 - Spark's names
        return FolderReader(
            folder=_unquoted(self.options["folder"]),
            log_folder=_unquoted(self.options["log"]),
            most_files=int(self.options["files"]),
            tasks=int(self.options["tasks"]),
        )


@dataclass
class Pieces(InputPartition):
    """What one task reads: pieces of files, each with its stream, its URI and its modification time."""

    pieces: list[tuple[str, str, int, FilePiece]]


class FolderReader(DataSourceStreamReader):
    """Takes files into micro-batches, and reads them. An offset is the number of the log's last entry."""

    def __init__(self, folder: Path, log_folder: Path, most_files: int, tasks: int) -> None:
        self._folder, self._most_files, self._tasks = folder, most_files, tasks
        self._log_folder = log_folder
        self._log: FileLog | None = None
        self._warnings: dict[str, str] = {}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {_OFFSET: -1}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802, ARG002
        """Take the files that have appeared, the ones with the earliest modification times first."""
        log, now_ms = self._open_log(), wall_clock_ms()
        if log.newest > start[_OFFSET]:  # taken by a start that ended before Spark stored the offset
            return {_OFFSET: log.newest}
        files: list[TakenFile] = []
        self._warnings = {}
        for stream in STREAMS:
            found = list_folder(self._folder / stream, log.names(stream))
            self._warnings |= found.warnings(stream)
            for entry in found.files:
                with suppress(OSError):  # it has just been deleted or renamed, or its mount does not answer
                    files.append(_take(entry, start[_OFFSET] + 1, now_ms))
        if not files:
            return start
        files.sort(key=lambda file: (file.modified_ms, file.uri))
        log.append(files[: self._most_files], now_ms)
        return {_OFFSET: log.newest}

    def reportLatestOffset(self) -> dict[str, object]:  # noqa: N802
        """What the progress of a micro-batch shows: the files that are not read, which `unread_warnings` reads."""
        return {"unread": self._warnings}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Pieces]:
        pieces = [
            (file, piece) for file in self._open_log().between(start[_OFFSET], end[_OFFSET]) for piece in _pieces(file)
        ]
        sizes = [_OPEN_BYTES + min(piece.end - piece.begin, file.size or 0) for file, piece in pieces]
        tasks = min(self._tasks, -(-sum(sizes) // _TASK_BYTES))
        parts = [Pieces([]) for _ in range(tasks)]
        before = 0
        for (file, piece), size in zip(pieces, sizes, strict=True):
            parts[before * tasks // sum(sizes)].pieces.append((file.stream, file.uri, file.modified_ms, piece))
            before += size
        return [part for part in parts if part.pieces]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Read pieces of files; raises `RuntimeError` for one that cannot be read."""
        assert isinstance(partition, Pieces)
        rows, size = [], 0
        for stream, uri, modified_ms, piece in partition.pieces:
            try:
                for value, length in read_messages(piece, MAX_VALUE_BYTES + 1):
                    rows.append((stream, uri, modified_ms, value, length))
                    size += len(value)
                    if len(rows) == _BATCH_ROWS or size >= _BATCH_BYTES:
                        yield _to_arrow(rows)
                        rows, size = [], 0
            except OSError as error:
                msg = f"{uri} cannot be read ({error.strerror}): see to it, or move it out of its folder"
                raise RuntimeError(msg) from error
        if rows:
            yield _to_arrow(rows)

    def _open_log(self) -> FileLog:
        """Open the log when it is needed: a reader is also made in every task."""
        if self._log is None:
            self._log = FileLog(self._log_folder)
        return self._log


def _take(entry: "os.DirEntry[str]", number: int, now_ms: int) -> TakenFile:
    status = entry.stat()
    uri = f"file:{_quoted(entry.path)}"
    return TakenFile(uri, status.st_mtime_ns // 1_000_000, number, now_ms, status.st_size)


def _pieces(file: TakenFile) -> Iterator[FilePiece]:
    """Divide a file among tasks; a compressed one cannot be divided."""
    path = file.path
    assert isinstance(path, Path)
    if path.suffix == COMPRESSED_ENDING:
        yield FilePiece(path, 0, sys.maxsize)
        return
    size = file.size
    if size is None:  # an entry of Spark's source
        size = path.stat().st_size if path.exists() else 0
    for begin in range(0, max(size, 1), _PIECE_BYTES):
        yield FilePiece(path, begin, min(begin + _PIECE_BYTES, size))


def _to_arrow(rows: list[tuple[str, str, int, bytes, int]]) -> "pa.RecordBatch":
    import pyarrow as pa

    stream, file, modified_ms, value, value_bytes = zip(*rows, strict=True)
    arrays = [
        pa.array(stream, pa.string()), pa.array(file, pa.string()), pa.array(modified_ms, pa.int64()),
        pa.array(value, pa.binary()), pa.array(value_bytes, pa.int64()),
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(arrays, names=["stream", "file", "modified_ms", "value", "value_bytes"])


def _quoted(path: str | Path) -> str:
    return quote_from_bytes(os.fsencode(path))


def _unquoted(text: str) -> Path:
    return Path(os.fsdecode(unquote_to_bytes(text)))
