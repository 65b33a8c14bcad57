"""Files that are written completely or not at all; folders that cannot be used, or are on a local disk."""

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal
from uuid import uuid4

from sessionization.hadoop_path import AnyPath, HadoopPath

VOLUMES = Path("/Volumes")
"""Below it Databricks mounts volumes.

Such a mount can neither rename nor sync a file, and shows a file once it is closed.
"""
_COPY_ENDING = ".new"
_MOUNTS = Path("/proc/self/mounts")
_OF_ONE_MACHINE = {b"btrfs", b"ext2", b"ext3", b"ext4", b"f2fs", b"overlay", b"tmpfs", b"xfs", b"zfs"}


def write_atomically(file: AnyPath, text: str) -> None:
    """Write a file completely or not at all, even if the process is killed or power is lost; raises `OSError`.

    On a volume (`VOLUMES`) a kill between two calls may leave a part.
    """
    if isinstance(file, HadoopPath):
        file.write(text, replaces=True)
    else:
        with open_whole(file) as out:
            out.write(text.encode())


@contextmanager
def open_whole(file: Path, mode: Literal["wb", "xb"] = "wb") -> Iterator[BinaryIO]:
    """Open a file that appears complete when the body ends; an error of the body leaves none.

    It is written under a hidden name and renamed, on a volume under its own name. Mode `xb` refuses a file that is
    being written. Raises `OSError`.
    """
    written = file if is_on_volume(file) else file.with_name(f".{file.name}.tmp")
    with written.open(mode) as out:
        try:
            yield out
            if written != file:
                out.flush()
                os.fsync(out.fileno())
        except BaseException:
            written.unlink(missing_ok=True)
            raise
    if written != file:
        written.replace(file)


def is_on_volume(path: AnyPath) -> bool:
    """Whether a path lies in a volume of Databricks."""
    return isinstance(path, Path) and path.absolute().is_relative_to(VOLUMES)


def appendable(path: AnyPath) -> Path | None:
    """A path whose files can be appended to and locked; None at a URI and on a volume."""
    return path if isinstance(path, Path) and not is_on_volume(path) else None


def newest_number(log: AnyPath, listed: Iterable[int], ending: str = "") -> int:
    """The greatest number that names a file of a log, given those that a listing shows; -1 without any.

    The numbers of a log have no gap at its end, and a volume may list its newest files some seconds late.
    """
    newest = max(listed, default=-1)
    while (log / f"{newest + 1}{ending}").exists():
        newest += 1
    return newest


def replace_verified(file: AnyPath, text: str) -> None:
    """Replace a file that nobody uses meanwhile; `finish_replacement` repairs it after a kill. Raises `OSError`.

    On a volume, where nothing replaces a file in one step, a complete copy lies beside it until it is replaced.
    """
    if not is_on_volume(file):
        write_atomically(file, text)
        return
    copy = file.with_name(f".{file.name}.{len(text.encode())}{_COPY_ENDING}")
    for target in (copy, file):
        write_atomically(target, text)
        if target.read_text(encoding="utf-8") != text:
            raise OSError(errno.EIO, "does not hold what was just written", str(target))
    copy.unlink()


def finish_replacement(folder: AnyPath) -> None:
    """Finish what a kill cut off on a volume in `replace_verified` of a file in `folder`; raises `OSError`."""
    copies: list[AnyPath] = [*folder.glob(f".*{_COPY_ENDING}")]
    for copy in copies:
        if not copy.exists():  # it is listed some seconds longer
            continue
        name, size = copy.name.removesuffix(_COPY_ENDING)[1:].rsplit(".", 1)
        if copy.stat().st_size == int(size):  # else the kill came before the file was touched
            replace_verified(folder / name, copy.read_text(encoding="utf-8"))
        copy.unlink(missing_ok=True)


def write_new(file: AnyPath, text: str) -> None:
    """Write a new file completely or not at all; on a volume a kill may leave a part.

    At a URI and on a volume, which have no locks, one of two programs that write it gets `FileExistsError`.
    """
    if isinstance(file, HadoopPath):
        file.write(text, replaces=False)
    elif is_on_volume(file):
        with open_whole(file, "xb") as out:
            out.write(text.encode())
    else:
        write_atomically(file, text)


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
    file = folder / f"_{uuid4().hex}"  # Delta ignores it
    write_atomically(file, "")
    file.unlink()


def is_reachable_folder(path: AnyPath) -> bool:
    """Whether a folder exists and answers; one on a dead mount, or in a storage that fails, does not."""
    try:
        return path.is_dir()
    except OSError:
        return False


def is_on_local_disk(folder: AnyPath) -> bool:
    """Whether a folder is on a file system of this machine alone; false if that is not known (other than Linux)."""
    if isinstance(folder, HadoopPath):
        return False
    try:
        path, mounts = folder.resolve(), _MOUNTS.read_bytes().splitlines()
    except OSError:
        return False
    kinds: dict[Path, bytes] = {}  # a later mount hides an earlier one at the same place
    for _device, place, kind, *_ in map(bytes.split, mounts):
        unescaped = place.decode("unicode_escape").encode("latin-1")  # a space is written as \\040
        kinds[Path(os.fsdecode(unescaped))] = kind
    return next((kinds[near] for near in (path, *path.parents) if near in kinds), b"") in _OF_ONE_MACHINE
