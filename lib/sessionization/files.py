"""Files that are written whole or not at all, and folders whose mount is dead."""

import errno
import os
from pathlib import Path


def write_atomically(file: Path, text: str) -> None:
    """Write a file so that no kill and no loss of power leaves part of it; raises `OSError`."""
    written = file.with_name(f".{file.name}.tmp")
    with written.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    written.replace(file)


def is_dead_mount(error: OSError) -> bool:
    """Whether a file system that was there does not answer any more: its server or daemon is gone, or its disk fails."""
    return error.errno in {errno.ENOTCONN, errno.ESTALE, errno.EIO}


def describe_dead_mount(what: str, error: OSError) -> str:
    """The first part of a line about a dead mount, up to what to do after mounting."""
    return f"{what} cannot be reached ({error.strerror}): its mount or its disk is gone; unmount it, mount it again"


def is_reachable_folder(path: Path) -> bool:
    """Whether a folder is there and answers; one on a dead mount is not."""
    try:
        return path.is_dir()
    except OSError as error:
        if is_dead_mount(error):
            return False
        raise
