"""Objects of an S3 bucket, read and written by its REST interface as if they were files."""

from datetime import datetime
from functools import partial
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree as ET

from tests.support.remote_files import Lister, RemoteFiles, Status

_XML = "{http://s3.amazonaws.com/doc/2006-03-01/}"


class S3Files(RemoteFiles):
    """The objects of a bucket. A folder is what the keys of objects have in common; a key begins without a `/`."""

    def __init__(self, address: str, bucket: str, access_key: str) -> None:
        """The server must ask for the name of the access key alone, and for no signature."""
        super().__init__()
        self._url = f"http://{address}/{bucket}"
        signed = "SignedHeaders=host, Signature=none"
        self._session.headers["Authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={access_key}/20260101/us-east-1/s3/aws4_request, {signed}"
        )

    def create_bucket(self) -> None:
        assert self._send("PUT", self._url) is not None

    def lister(self, folder: str) -> Lister:
        """As of any storage, with one listing for all folders below."""
        return partial(_entries, self._list(_prefix(folder)))

    def _list(self, prefix: str) -> dict[str, Status]:
        """The objects by key."""
        found = {}
        query = {"list-type": "2", "prefix": prefix}
        while True:
            answer = self._send("GET", self._url, query=query)
            assert answer is not None, f"there is no bucket {self._url}"
            page = ET.fromstring(answer.content)
            for item in page.iterfind(f"{_XML}Contents"):
                modified_ms = round(datetime.fromisoformat(_text(item, "LastModified")).timestamp() * 1_000)
                length = int(_text(item, "Size"))
                found[_text(item, "Key")] = Status(is_folder=False, length=length, modified_ms=modified_ms)
            if page.findtext(f"{_XML}IsTruncated") != "true":
                return found
            query["continuation-token"] = _text(page, "NextContinuationToken")

    def read(self, file: str) -> bytes | None:
        answer = self._send("GET", self._url_of(file))
        return None if answer is None else answer.content

    def write(self, file: str, content: bytes) -> None:
        assert self._send("PUT", self._url_of(file), content) is not None

    def push(self, local: Path, to: str) -> None:
        """Its modification time there is the present, to the second: S3 has no other."""
        self.write(to, local.read_bytes())

    def _url_of(self, path: str) -> str:
        return f"{self._url}{quote(path)}"


def _entries(objects: dict[str, Status], folder: str) -> dict[str, Status]:
    """The objects and folders in a folder by name, of objects by key."""
    prefix = _prefix(folder)
    found: dict[str, Status] = {}
    for key, status in objects.items():
        name, _, _ = key.removeprefix(prefix).partition("/")
        if key.startswith(prefix) and name:  # without one it marks the folder itself
            is_folder = "/" in key.removeprefix(prefix)
            found[name] = Status(is_folder=True, length=0, modified_ms=0) if is_folder else status
    return found


def _text(element: ET.Element, name: str) -> str:
    return element.findtext(f"{_XML}{name}") or ""


def _prefix(folder: str) -> str:
    """What the keys of the objects in a folder begin with."""
    return f"{folder.strip('/')}/"
