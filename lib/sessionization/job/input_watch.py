"""What a person must know of the input's files: which are not read, and which may have ended the engine."""

import time
from collections.abc import Callable
from pathlib import Path

from sessionization.errors import CheckpointError
from sessionization.files import is_reachable_folder
from sessionization.hadoop_path import AnyPath
from sessionization.say import Say
from sessionization.spark.checkpoint.file_source_log import interrupted_files
from sessionization.spark.checkpoint.folder import ARCHIVE, SESSIONIZE
from sessionization.spark.input.stream_folders import list_folder, printable
from sessionization.streams import STREAMS

_MOST_NAMES = 3
_LIST_EVERY_S = 60


def watch_input(folder: AnyPath | None, say: Say) -> Callable[[], None]:
    """A check that prints what of an input folder is not read: stream folders that have disappeared, and files.

    The engine treats a missing folder as an absence of events, and sessions then time out. A kind of files that are not
    read is named once; the folders are listed once a minute.
    """
    seen: set[str] = set()
    said: set[str] = set()
    next_listing_s = 0.0

    def check() -> None:
        nonlocal next_listing_s
        if folder is None:
            return
        present = {stream for stream in STREAMS if is_reachable_folder(folder / stream)}
        seen.update(present)
        if gone := ", ".join(sorted(seen - present)):
            say(f"--input {folder}: {gone} has disappeared, so no event of it is read; is a mount gone? bring it back")
        if isinstance(folder, Path) and time.monotonic() >= next_listing_s:
            next_listing_s = time.monotonic() + _LIST_EVERY_S
            unread: dict[str, str] = {}
            for stream in present:
                unread |= list_folder(folder / stream, check_rights=False).warnings(stream)
            for kind in unread.keys() - said:
                say(f"--input {folder}: {unread[kind]}")
            said.clear()
            said.update(unread)

    return check


def name_interrupted_files(checkpoints: AnyPath, say: Say) -> None:
    """Print which files the micro-batches read that did not end, because one of these files may have ended the engine.

    Raises `CheckpointError` where Spark's logs cannot be read.
    """
    files: dict[AnyPath, int] = {}
    for name in (SESSIONIZE, ARCHIVE):
        try:
            files |= {file.path: _size(file.path) for file in interrupted_files(checkpoints / name)}
        except (OSError, ValueError, LookupError, TypeError) as error:
            msg = f"--checkpoints {checkpoints}: the log of the files that {name} read cannot be read ({error})"
            raise CheckpointError(msg) from error
    if not files:
        return
    largest = sorted(files, key=files.__getitem__, reverse=True)[:_MOST_NAMES]
    names = ", ".join(f"{printable(f'{file.parent.name}/{file.name}')} ({files[file]:,} bytes)" for file in largest)
    say(
        f"a micro-batch that did not end is repeated; it reads {len(files):,} files, the largest are {names}: if the "
        "engine dies of one, move that file out of its folder (docs/runbook.md, 'A file ends the engine')"
    )


def _size(file: AnyPath) -> int:
    """The size of a file in bytes; 0 where it was moved away."""
    try:
        return int(file.stat().st_size)
    except OSError:
        return 0
