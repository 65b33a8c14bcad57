"""Files of HDFS, read and written by WebHDFS."""

import getpass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import requests

from tests.whole_job.remote_files import RemoteFiles, Status

_TIMEOUT_S = 60


class HdfsFiles(RemoteFiles):
    """The files of HDFS, through the web servers of its nodes; paths begin with `/`."""

    def __init__(self, address: str) -> None:
        """`address` is that of the name node's web server."""
        self._url = f"http://{address}/webhdfs/v1"
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy

    def entries(self, folder: str) -> dict[str, Status]:
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

    def _send(
        self, method: str, url: str, content: bytes | None = None, query: dict[str, Any] | None = None
    ) -> requests.Response | None:
        answer = self._session.request(method, url, params=query, data=content, timeout=_TIMEOUT_S)
        if answer.status_code == requests.codes.not_found:
            return None
        answer.raise_for_status()
        return answer
