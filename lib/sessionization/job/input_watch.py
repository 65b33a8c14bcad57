"""What a person must know of the input's files: which are not read, and which may have ended the engine."""

import ast
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming import StreamingQuery

from sessionization.errors import CheckpointError
from sessionization.files import is_reachable_folder
from sessionization.hadoop_path import AnyPath
from sessionization.say import Say
from sessionization.spark.checkpoint.file_source_log import TakenFile, interrupted_files
from sessionization.spark.checkpoint.folder import ARCHIVE, SESSIONIZE
from sessionization.spark.input.stream_folders import printable
from sessionization.spark.output.progress import last_engine_progress
from sessionization.streams import STREAMS

_MOST_NAMES = 3


def watch_input(folder: AnyPath | None, queries: dict[str, StreamingQuery], say: Say) -> Callable[[], None]:
    """A check that prints what of an input folder is not read: stream folders that have disappeared, and files.

    The engine treats a missing folder as an absence of events, and sessions then time out. Files are named once; the
    source counts them (`FolderReader.reportLatestOffset`).
    """
    seen: set[str] = set()
    said: set[str] = set()

    def check() -> None:
        if folder is None:
            return
        present = {stream for stream in STREAMS if is_reachable_folder(folder / stream)}
        seen.update(present)
        if gone := ", ".join(sorted(seen - present)):
            say(f"--input {folder}: {gone} has disappeared, so no event of it is read; is a mount gone? bring it back")
        unread = _unread(queries.get(ARCHIVE))
        for kind in unread.keys() - said:
            say(f"--input {folder}: {unread[kind]}")
        said.clear()
        said.update(unread)

    return check


def _unread(query: StreamingQuery | None) -> dict[str, str]:
    """The warnings of the folder source by their kind; none where another source reads."""
    last = last_engine_progress(query)
    if last is None:
        return {}
    try:
        latest: Any = ast.literal_eval(last["sources"][0]["latestOffset"])  # PySpark shows JSON as text of Python
        return dict(latest["unread"])
    except (ValueError, SyntaxError, LookupError, TypeError):
        return {}


def name_interrupted_files(checkpoints: AnyPath, say: Say) -> None:
    """Print which files the micro-batches read that did not end, because one of these files may have ended the engine.

    Raises `CheckpointError` where Spark's logs cannot be read.
    """
    files: dict[str, TakenFile] = {}
    for name in (SESSIONIZE, ARCHIVE):
        try:
            files |= {file.uri: file for file in interrupted_files(checkpoints / name)}
        except (OSError, ValueError, LookupError, TypeError) as error:
            msg = f"--checkpoints {checkpoints}: the log of the files that {name} read cannot be read ({error})"
            raise CheckpointError(msg) from error
    if not files:
        return
    largest = sorted(files.values(), key=lambda file: file.size or 0, reverse=True)[:_MOST_NAMES]
    names = ", ".join(f"{printable(_name(file))} ({file.size or 0:,} bytes)" for file in largest)
    say(
        f"a micro-batch that did not end is repeated; it reads {len(files):,} files, the largest are {names}: if the "
        "engine dies of one, move that file out of its folder (docs/runbook.md, 'A file ends the engine')"
    )


def _name(file: TakenFile) -> str:
    return f"{file.stream}/{file.path.name}"
