"""Files of a storage that Spark reaches by a URI: the helpers of the tests read a copy of its folders here."""

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

_TIMEOUT_S = 60
STATE = frozenset({"state"})
"""The folder of Spark's state, which holds most files of a checkpoint."""


@dataclass(frozen=True)
class Status:
    """What the storage knows of a file or folder."""

    is_folder: bool
    length: int
    modified_ms: int

    def is_of(self, copy: Path) -> bool:
        """Whether a local file or folder is a copy, as far as length and modification time tell."""
        if self.is_folder or not copy.exists():
            return copy.is_dir()
        found = copy.stat()
        return (found.st_size, found.st_mtime_ns // 1_000_000) == (self.length, self.modified_ms)


Lister = Callable[[str], dict[str, Status]]
"""Gives the files and folders in a folder by name; none if it does not exist."""


class RemoteFiles(ABC):
    """The files of a storage, read and written by HTTP, without Spark; paths begin with `/`."""

    def __init__(self) -> None:
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy

    @abstractmethod
    def lister(self, folder: str) -> Lister:
        """A function that lists this folder and those below it. It may know them all from now on."""

    def entries(self, folder: str) -> dict[str, Status]:
        """The files and folders in a folder by name; none if it does not exist."""
        return self.lister(folder)(folder)

    @abstractmethod
    def read(self, file: str) -> bytes | None:
        """The bytes of a file; None if it does not exist."""

    @abstractmethod
    def write(self, file: str, content: bytes) -> None:
        """Create or replace a file, and the folders above it."""

    @abstractmethod
    def push(self, local: Path, to: str) -> None:
        """Copy a file; it appears at once, as a whole, where the storage can with its modification time."""

    def pull(self, folder: str, local: Path, *, skip: Collection[str] = STATE) -> bool:
        """Make a local folder a copy of a remote one, except for folders of these names; return whether it changed.

        Copies what is new or has changed, with its modification time, and deletes what is gone. Files that others
        create meanwhile may be missing: a call that changes nothing says that the copy is that of one moment.
        """
        return self._pull(folder, local, skip, self.lister(folder))

    def _pull(self, folder: str, local: Path, skip: Collection[str], entries: Lister) -> bool:
        remote = {name: status for name, status in entries(folder).items() if name not in skip}
        local.mkdir(parents=True, exist_ok=True)
        gone = [path for path in local.iterdir() if path.name not in remote and path.name not in skip]
        for path in gone:
            _delete(path)
        changed = bool(gone)
        for name, status in sorted(remote.items()):
            path, copy = f"{folder}/{name}", local / name
            changed |= not status.is_of(copy)
            if status.is_folder:
                changed |= self._pull(path, copy, skip, entries)
            elif not status.is_of(copy) and (content := self.read(path)) is not None:
                copy.write_bytes(content)
                os.utime(copy, ns=(0, status.modified_ms * 1_000_000))
        return changed

    def _send(
        self, method: str, url: str, content: bytes | None = None, query: dict[str, Any] | None = None
    ) -> requests.Response | None:
        """The answer; None if the path does not exist."""
        answer = self._session.request(method, url, params=query, data=content, timeout=_TIMEOUT_S)
        if answer.status_code == requests.codes.not_found:
            return None
        answer.raise_for_status()
        return answer


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
