"""Files that are written completely or not at all; folders that cannot be used, or are on a local disk."""

import errno
import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from sessionization.hadoop_errors import STORAGE_ERROR
from sessionization.hadoop_path import AnyPath, HadoopPath

_CANNOT_RENAME = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
_MOUNTS = Path("/proc/self/mountinfo")
_MOUNT_ID = re.compile(rb"^mnt_id:\s*(\d+)$", re.MULTILINE)
_OF_ONE_MACHINE = {b"btrfs", b"ext2", b"ext3", b"ext4", b"f2fs", b"overlay", b"tmpfs", b"xfs", b"zfs"}


def write_atomically(file: AnyPath, text: str, *, may_copy: bool = True) -> None:
    """Write a file completely or not at all, even if the process is killed or power is lost; raises `OSError`.

    Where the mount cannot rename, that holds for no file: it is copied (`rename_or_copy`), or with `may_copy` false not
    written.
    """
    if isinstance(file, HadoopPath):
        file.write_atomically(text)
        return
    temporary = file.with_name(f".{file.name}.tmp")
    with temporary.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    if may_copy:
        rename_or_copy(temporary, file)
    else:
        temporary.replace(file)


def write_new(file: AnyPath, text: str) -> None:
    """Write a new file completely or not at all.

    At a URI, which has no lock, one of two programs that write it gets `FileExistsError`.
    """
    if isinstance(file, HadoopPath):
        file.write_new(text)
    else:
        write_atomically(file, text)


def rename_or_copy(complete: Path, file: Path) -> bool:
    """Give a complete file its name; on a mount that cannot rename, copy it, and delete it afterwards.

    A Databricks volume may be such a mount. It stores a file when it is closed, so a copy appears at once there.
    After a kill or a failure in between, the copy may be incomplete; the complete file is still next to it.

    Returns:
        Whether the mount can rename.

    Raises `OSError`.
    """
    try:
        complete.replace(file)
    except OSError as error:
        if error.errno not in _CANNOT_RENAME:
            raise
        with complete.open("rb") as source, file.open("wb") as target:
            shutil.copyfileobj(source, target)
            target.flush()
            os.fsync(target.fileno())
        complete.unlink()
        return False
    return True


def remove_tree(folder: AnyPath) -> None:
    """Delete a folder with everything in it; a failure leaves the rest."""
    if isinstance(folder, HadoopPath):
        with suppress(OSError):
            folder.remove_tree()
    else:
        shutil.rmtree(folder, ignore_errors=True)


def refuse_unreadable(folder: AnyPath) -> None:
    """Raises `OSError` where the folder cannot be listed."""
    next(folder.iterdir(), None)


def refuse_unwritable(folder: AnyPath) -> None:
    """Write a file into the folder and delete it; raises `OSError` where that fails."""
    if isinstance(folder, HadoopPath):
        file = folder / f"_{uuid4().hex}"  # Delta ignores it
        file.write_atomically("")
        file.unlink()
    else:
        with tempfile.TemporaryFile(dir=folder):
            pass


def is_dead_mount(error: OSError) -> bool:
    """Whether a file system stopped answering: its server or daemon is gone, or its disk fails."""
    return error.errno in {errno.ENOTCONN, errno.ESTALE, errno.EIO}


def describe_dead_mount(place: str, error: OSError) -> str:
    """Return the first part of a message about a dead mount; the caller adds the step after mounting."""
    return f"{place} cannot be reached ({error.strerror}): its mount or its disk is gone; unmount it, mount it again"


def is_reachable_folder(path: AnyPath) -> bool:
    """Whether a folder exists and answers; one on a dead mount, or in a storage that fails, does not."""
    try:
        return path.is_dir()
    except OSError as error:
        if is_dead_mount(error) or error.errno == STORAGE_ERROR:
            return False
        raise


def is_on_local_disk(folder: AnyPath) -> bool:
    """Whether a folder is on a file system of this machine alone; false if that is not known (other than Linux).

    A folder that does not exist is where its nearest parent is. Source: proc_pid_fdinfo(5), proc_pid_mountinfo(5).
    """
    if isinstance(folder, HadoopPath):
        return False
    try:
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        mount_id = _mount_id(existing)
        mounts = _MOUNTS.read_bytes().split(b"\n")
    except OSError:
        return False
    parts = (mount.partition(b" - ") for mount in mounts)
    kinds = (kind.split(b" ")[0] for mount, _, kind in parts if mount.split(b" ")[0] == mount_id)
    return next(kinds, b"") in _OF_ONE_MACHINE


def _mount_id(folder: Path) -> bytes:
    """The id of the mount that a folder is on; empty where the system does not tell."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        found = _MOUNT_ID.search(Path(f"/proc/self/fdinfo/{descriptor}").read_bytes())
    finally:
        os.close(descriptor)
    return found[1] if found else b""
