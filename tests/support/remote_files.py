"""Files of a storage that Spark reaches by a URI: the helpers of the tests read a copy of its folders here."""

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

STATE = frozenset({"state"})
"""The folder of Spark's state, which holds most files of a checkpoint."""


@dataclass(frozen=True)
class RemoteFile:
    """What the storage knows of a file."""

    path: Any
    length: int
    modified_ms: int

    def is_copied(self, copy: Path) -> bool:
        """Whether a local file is a copy, as far as length and modification time tell."""
        if not copy.exists():
            return False
        found = copy.stat()
        return (found.st_size, found.st_mtime_ns // 1_000_000) == (self.length, self.modified_ms)


class RemoteFiles:
    """The files of a storage, by Hadoop's client in the tests' own Spark; paths begin with `/`."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._jvm = spark._jvm
        conf = spark._jsc.hadoopConfiguration()
        self._storage = self._jvm.org.apache.hadoop.fs.FileSystem.newInstance(self._jvm.java.net.URI(uri), conf)

    def push(self, local: Path, to: str) -> None:
        """Copy a file; it appears at once, as a whole, where the storage can with its modification time."""
        folder, _, name = to.rpartition("/")
        hidden = self._path(f"{folder}/.{name}")
        self._storage.copyFromLocalFile(self._path(str(local)), hidden)
        self._storage.setTimes(hidden, local.stat().st_mtime_ns // 1_000_000, -1)
        assert self._storage.rename(hidden, self._path(to)), f"{to} exists already"

    def pull(self, folder: str, local: Path, *, skip: Collection[str] = STATE) -> bool:
        """Make a local folder a copy of a remote one, except for folders of these names; return whether it changed.

        Copies what is new or has changed, with its modification time, and deletes what is gone. Files that others
        create meanwhile may be missing: a call that changes nothing says that the copy is that of one moment.
        """
        remote = {name: file for name, file in self._files(folder) if not set(skip) & set(name.parts)}
        copies = {copy.relative_to(local) for copy in local.rglob("*") if copy.is_file()}
        gone = {name for name in copies - remote.keys() if not set(skip) & set(name.parts)}
        for name in gone:
            (local / name).unlink()
        news = sorted(name for name, file in remote.items() if not file.is_copied(local / name))
        for name in news:
            copy, file = local / name, remote[name]
            copy.parent.mkdir(parents=True, exist_ok=True)
            with suppress(Py4JJavaError):  # it has been deleted meanwhile
                self._storage.copyToLocalFile(False, file.path, self._path(str(copy)), True)
                os.utime(copy, ns=(0, file.modified_ms * 1_000_000))
        return bool(gone or news)

    def _files(self, folder: str) -> Iterator[tuple[Path, RemoteFile]]:
        """The files in a folder and below, by their paths from there; none if it does not exist."""
        with suppress(Py4JJavaError):
            found = self._storage.listFiles(self._path(folder), True)
            while found.hasNext():
                status = found.next()
                name = Path(status.getPath().toUri().getPath()).relative_to(folder)
                yield name, RemoteFile(status.getPath(), status.getLen(), status.getModificationTime())

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)
