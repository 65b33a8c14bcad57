"""Checks of the folders that the sessionize job needs: what its storage can do, its lock, its input."""

import time
from itertools import islice
from pathlib import Path

from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.files import remove_tree, replace_verified, write_new
from sessionization.hadoop_path import AnyPath, HadoopPath
from sessionization.job.preparation import refuse_unreadable_input
from sessionization.spark.checkpoint.folder_lock import lock_folder
from sessionization.spark.input.stream_folders import is_message_file, list_folder
from sessionization.streams import STREAMS

_BYTES = 1024 * 1024
_LISTS_WITHIN_S = 15
_POLL_S = 0.2
_MOST_AT_A_URI = 10
"""Each entry costs several calls of the engine."""


def check_storage(folder: AnyPath) -> str:
    """Write, replace, read and list files in a folder, which is made anew.

    Raises `ConfigurationError` where what was written is not there, and `OSError`.
    """
    began_s = time.monotonic()
    remove_tree(folder)  # of a run that was killed
    folder.mkdir(parents=True, exist_ok=True)
    file, text = folder / "file", "x" * _BYTES
    for version, write in (("1", write_new), ("2", replace_verified)):
        write(file, version + text)
        if file.read_text(encoding="utf-8") != version + text:
            msg = f"{file} does not hold what was just written: give --checkpoints on storage with consistent reads"
            raise ConfigurationError(msg)
    if not _lists_only(folder, file.name):
        msg = f"{folder} lists other files than were written: give --checkpoints on storage with consistent listings"
        raise ConfigurationError(msg)
    return f"1 MB written, replaced, read and listed in {time.monotonic() - began_s:.2f} s in {folder.parent}"


def _lists_only(folder: AnyPath, name: str) -> bool:
    """Whether a listing shows one file; a mount may show what has changed some seconds late."""
    deadline_s = time.monotonic() + _LISTS_WITHIN_S
    while [entry.name for entry in folder.iterdir()] != [name]:
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_POLL_S)
    return True


def check_logs(destination: str) -> str:
    """Write a file where the logs of a cluster on Databricks go, a folder of a volume; raises `OSError`."""
    folder = Path(destination.removeprefix("dbfs:"))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"sessionization_preflight-{time.time_ns()}"
    write_new(file, "")
    file.unlink()
    return f"the cluster's logs go to {folder}, which can be written"


def check_lock(folder: AnyPath) -> str:
    """Lock a folder, and try to lock it again; raises the errors of `lock_folder`."""
    with lock_folder(folder, lambda _line: None) as is_exclusive:
        try:
            with lock_folder(folder, lambda _line: None, wait_s=0):
                return "this storage has no locks: a lease keeps a second job away"
        except CheckpointError:
            if is_exclusive:
                return "a second job is refused"
            return "a second job is refused on this machine; a lease keeps away one on another machine"


def check_input(folder: AnyPath) -> str:
    """Count the files of each stream, and name those that are not read.

    Raises `ConfigurationError` where the folder cannot be read.
    """
    refuse_unreadable_input(folder)
    return "; ".join(
        _describe_files(folder / stream, stream) if (folder / stream).is_dir() else f"{stream} is missing so far"
        for stream in STREAMS
    )


def _describe_files(folder: AnyPath, stream: str) -> str:
    if isinstance(folder, HadoopPath):
        names = [entry.name for entry in islice(folder.iterdir(), _MOST_AT_A_URI + 1)]
        if len(names) > _MOST_AT_A_URI:
            return f"{stream} has more than {_MOST_AT_A_URI:,} files"
        return f"{stream} has {sum(map(is_message_file, names)):,} files"
    found = list_folder(folder)
    return "; ".join([f"{stream} has {len(found.files):,} files", *found.warnings(stream).values()])
