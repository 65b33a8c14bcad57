"""The files of the input: takes them, and names those that are not read or that may have ended the engine."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sessionization.errors import CheckpointError
from sessionization.files import is_reachable_folder
from sessionization.hadoop_path import AnyPath
from sessionization.say import Say
from sessionization.spark.checkpoint.file_source_log import interrupted_files
from sessionization.spark.checkpoint.folder import ARCHIVE, SESSIONIZE
from sessionization.spark.checkpoint.take_log import TAKES_FOLDER
from sessionization.spark.engine.session import cores_of
from sessionization.spark.input.file_taker import FileTaker
from sessionization.spark.input.stream_folders import misplaced_files, printable
from sessionization.spark.job_context import JobContext

_MOST_NAMES = 3


@contextmanager
def take_input(context: JobContext) -> Iterator[Callable[[], None]]:
    """Take the files of an input folder in the background while the body runs (`FileTaker`).

    Yields a check that prints what is not read (`watch_input`), and raises `StreamError` where no file can be taken.
    Raises `CheckpointError` where the checkpoint's log of files cannot be read.
    """
    settings, checkpoint = context.settings, context.checkpoint
    streams = settings.event_map.stream_names
    if not isinstance(settings.input_folder, Path):
        yield watch_input(settings.input_folder, streams, dict, context.say)
        return
    log_folder = checkpoint.folder / TAKES_FOLDER
    if checkpoint.is_used and not log_folder.is_dir():
        msg = (
            f"--checkpoints {checkpoint.folder} lacks {TAKES_FOLDER}, the log of its input files: "
            "restore it from a backup, or begin a new folder with --from-sessions; nothing was touched"
        )
        raise CheckpointError(msg)
    queries = [checkpoint.folder / name for name in (SESSIONIZE, ARCHIVE)]
    folders = [settings.input_folder / stream for stream in streams]
    taker = FileTaker(folders, log_folder, cores_of(context.spark) or 1, queries, context.check_lease)
    misplaced = misplaced_files(settings.input_folder)
    print_unread = watch_input(settings.input_folder, streams, lambda: misplaced | taker.unread, context.say)

    def check() -> None:
        taker.check()
        print_unread()

    with taker.running(settings.pace.trigger_ms):
        yield check


def watch_input(
    folder: AnyPath | None, streams: Sequence[str], unread: Callable[[], dict[str, str]], say: Say
) -> Callable[[], None]:
    """A check that prints what of an input folder is not read: stream folders that have disappeared, and files.

    A missing folder is an absence of events, and sessions then time out. A kind of files that are not read (`unread`,
    lines by kind) is named once.
    """
    seen: set[str] = set()
    said: set[str] = set()

    def check() -> None:
        if folder is None:
            return
        present = {stream for stream in streams if is_reachable_folder(folder / stream)}
        seen.update(present)
        if gone := ", ".join(sorted(seen - present)):
            say(f"--input {folder}: {gone} has disappeared, so no event of it is read; is a mount gone? bring it back")
        lines = unread()
        for kind in lines.keys() - said:
            say(f"--input {folder}: {lines[kind]}")
        said.clear()
        said.update(lines)

    return check


def name_interrupted_files(checkpoints: AnyPath, say: Say) -> None:
    """Print which files the micro-batches read that did not end, because one of these files may have ended the engine.

    Raises `CheckpointError` where Spark's logs cannot be read.
    """
    files: dict[AnyPath, int] = {}
    for name in (SESSIONIZE, ARCHIVE):
        try:
            files |= {path: _size(path) for path in {file.path for file in interrupted_files(checkpoints / name)}}
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
