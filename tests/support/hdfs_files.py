"""Files of HDFS, read and written by WebHDFS."""

import getpass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.support.remote_files import Lister, RemoteFiles, Status


class HdfsFiles(RemoteFiles):
    """The files of HDFS, through the web servers of its nodes; paths begin with `/`."""

    def __init__(self, address: str) -> None:
        """`address` is that of the name node's web server."""
        super().__init__()
        self._url = f"http://{address}/webhdfs/v1"

    def lister(self, folder: str) -> Lister:  # noqa: ARG002 - each folder is listed when it is asked for
        return self._list

    def _list(self, folder: str) -> dict[str, Status]:
        answer = self._ask("GET", folder, "LISTSTATUS")
        return {
            entry["pathSuffix"]: Status(entry["type"] == "DIRECTORY", entry["length"], entry["modificationTime"])
            for entry in (answer["FileStatuses"]["FileStatus"] if answer else ())
        }

    def read(self, file: str) -> bytes | None:
        answer = self._ask("GET", file, "OPEN", noredirect="true")
        content = None if answer is None else self._send("GET", answer["Location"])
        return None if content is None else content.content

    def push(self, local: Path, to: str) -> None:
        folder, _, name = to.rpartition("/")
        hidden = f"{folder}/.{name}"
        self.write(hidden, local.read_bytes())
        self._ask("PUT", hidden, "SETTIMES", modificationtime=local.stat().st_mtime_ns // 1_000_000)
        assert self._ask("PUT", hidden, "RENAME", destination=to) == {"boolean": True}, f"{to} exists already"

    def write(self, file: str, content: bytes) -> None:
        created = self._ask("PUT", file, "CREATE", noredirect="true", overwrite="true")
        assert created is not None
        assert self._send("PUT", created["Location"], content) is not None

    def _ask(self, method: str, path: str, operation: str, **options: Any) -> Any | None:
        """What the name node answers; None if the path does not exist."""
        query = {"op": operation, "user.name": getpass.getuser(), **options}
        answer = self._send(method, f"{self._url}{quote(path)}", query=query)
        return answer if answer is None else answer.json() if answer.content else {}
