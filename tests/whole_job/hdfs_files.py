"""Files of HDFS, read and written by WebHDFS: the helpers of the tests read a copy of its folders on the local disk."""

import getpass
import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import requests

_TIMEOUT_S = 60
_STATE = frozenset({"state"})
"""The folder of Spark's state, which holds most files of a checkpoint."""


@dataclass(frozen=True)
class Status:
    """What HDFS knows of a file or folder."""

    is_folder: bool
    length: int
    modified_ms: int

    def is_of(self, copy: Path) -> bool:
        """Whether a local file or folder is a copy, as far as length and modification time tell."""
        if self.is_folder or not copy.exists():
            return copy.is_dir()
        found = copy.stat()
        return (found.st_size, found.st_mtime_ns // 1_000_000) == (self.length, self.modified_ms)


class HdfsFiles:
    """The files of HDFS, through the web servers of its nodes; paths begin with `/`."""

    def __init__(self, address: str) -> None:
        """`address` is that of the name node's web server."""
        self._url = f"http://{address}/webhdfs/v1"
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy

    def entries(self, folder: str) -> dict[str, Status]:
        """The files and folders in a folder by name; none if it does not exist."""
        answer = self._ask("GET", folder, "LISTSTATUS")
        return {
            entry["pathSuffix"]: Status(entry["type"] == "DIRECTORY", entry["length"], entry["modificationTime"])
            for entry in (answer["FileStatuses"]["FileStatus"] if answer else ())
        }

    def read(self, file: str) -> bytes | None:
        """The bytes of a file; None if it does not exist."""
        answer = self._ask("GET", file, "OPEN", noredirect="true")
        content = None if answer is None else self._send("GET", answer["Location"])
        return None if content is None else content.content

    def push(self, local: Path, to: str) -> None:
        """Copy a file with its modification time; it appears at once, as a whole."""
        folder, _, name = to.rpartition("/")
        hidden = f"{folder}/.{name}"
        self.write(hidden, local.read_bytes())
        self._ask("PUT", hidden, "SETTIMES", modificationtime=local.stat().st_mtime_ns // 1_000_000)
        assert self._ask("PUT", hidden, "RENAME", destination=to) == {"boolean": True}, f"{to} exists already"

    def pull(self, folder: str, local: Path, *, skip: Collection[str] = _STATE) -> bool:
        """Make a local folder a copy of one on HDFS, except for folders of these names; return whether it changed.

        Copies what is new or has changed, with its modification time, and deletes what is gone. Files that others
        create meanwhile may be missing: a call that changes nothing says that the copy is that of one moment.
        """
        remote = {name: status for name, status in self.entries(folder).items() if name not in skip}
        local.mkdir(parents=True, exist_ok=True)
        gone = [path for path in local.iterdir() if path.name not in remote and path.name not in skip]
        for path in gone:
            _delete(path)
        changed = bool(gone)
        for name, status in sorted(remote.items()):
            path, copy = f"{folder}/{name}", local / name
            changed |= not status.is_of(copy)
            if status.is_folder:
                changed |= self.pull(path, copy, skip=skip)
            elif not status.is_of(copy) and (content := self.read(path)) is not None:
                copy.write_bytes(content)
                os.utime(copy, ns=(0, status.modified_ms * 1_000_000))
        return changed

    def write(self, file: str, content: bytes) -> None:
        """Create or replace a file, and the folders above it."""
        created = self._ask("PUT", file, "CREATE", noredirect="true", overwrite="true")
        assert created is not None
        assert self._send("PUT", created["Location"], content) is not None

    def _ask(self, method: str, path: str, operation: str, **options: Any) -> Any | None:
        """What the name node answers; None if the path does not exist."""
        query = {"op": operation, "user.name": getpass.getuser(), **options}
        answer = self._send(method, f"{self._url}{quote(path)}", query=query)
        return answer if answer is None else answer.json() if answer.content else {}

    def _send(
        self, method: str, url: str, content: bytes | None = None, query: dict[str, Any] | None = None
    ) -> requests.Response | None:
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
