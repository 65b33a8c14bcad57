"""Files that are written completely or not at all, and folders on a dead mount."""

import errno
import os
from pathlib import Path


def write_atomically(file: Path, text: str) -> None:
    """Write a file completely or not at all, even if the process is killed or power is lost; raises `OSError`."""
    temporary = file.with_name(f".{file.name}.tmp")
    with temporary.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(file)


def is_dead_mount(error: OSError) -> bool:
    """Whether a file system stopped answering: its server or daemon is gone, or its disk fails."""
    return error.errno in {errno.ENOTCONN, errno.ESTALE, errno.EIO}


def describe_dead_mount(place: str, error: OSError) -> str:
    """Return the first part of a message about a dead mount; the caller adds the step after mounting."""
    return f"{place} cannot be reached ({error.strerror}): its mount or its disk is gone; unmount it, mount it again"


def is_reachable_folder(path: Path) -> bool:
    """Whether a folder exists and answers; a folder on a dead mount does not."""
    try:
        return path.is_dir()
    except OSError as error:
        if is_dead_mount(error):
            return False
        raise
