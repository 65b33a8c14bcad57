"""Files that are written completely or not at all, folders on a dead mount, and folders on a local disk."""

import errno
import os
import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED_BYTE = re.compile(rb"\\([0-7]{3})")
_OF_ONE_MACHINE = {"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"}


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


def is_on_local_disk(folder: Path) -> bool:
    """Whether a folder is on a file system of this machine alone; false if that is not known (other than Linux).

    Source: proc_pid_mountinfo(5).
    """
    resolved = folder.resolve()
    found: list[tuple[int, str]] = []
    try:
        mounts = _MOUNTS.read_bytes().removesuffix(b"\n").split(b"\n")
    except OSError:
        return False
    for mount in mounts:
        fields, _, source = mount.partition(b" - ")
        mount_point = Path(os.fsdecode(_ESCAPED_BYTE.sub(_unescape, fields.split(b" ")[4])))
        if resolved.is_relative_to(mount_point):
            found.append((len(mount_point.parts), source.split(b" ")[0].decode()))
    if not found:
        return False
    deepest, newest = max(reversed(found), key=lambda mount: mount[0]), found[-1]  # the newest may cover the deepest
    return deepest[1] in _OF_ONE_MACHINE and newest[1] in _OF_ONE_MACHINE


def _unescape(byte: re.Match[bytes]) -> bytes:
    return bytes([int(byte[1], base=8)])
