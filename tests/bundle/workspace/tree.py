"""Files and folders of a workspace and of its volumes."""

import base64
import time
from pathlib import PurePosixPath
from typing import Any

from tests.bundle.workspace.answers import Answer, Refused, Request, Routes, missing

_NOTEBOOK_HEADER = b"# Databricks notebook source"


class Tree:
    """Objects by their absolute path; `/Workspace/Users/x` and `/Users/x` are the same."""

    def __init__(self, user_name: str, *, is_admin: bool) -> None:
        self._user = user_name
        self._is_admin = is_admin
        self._ids = 0
        self._objects: dict[str, dict[str, Any]] = {}
        self._contents: dict[str, bytes] = {}
        self.make_folder(f"/Workspace/Users/{user_name}")

    def routes(self) -> Routes:
        return {
            ("GET", "/api/2.0/workspace/get-status"): self._status,
            ("GET", "/api/2.0/workspace/list"): self._list,
            ("POST", "/api/2.0/workspace/mkdirs"): lambda request: self.make_folder(
                self._writable(request.json["path"])
            ),
            ("POST", "/api/2.0/workspace/import"): self._import,
            ("POST", "/api/2.0/workspace-files/import-file/{path...}"): self._import_file,
            ("GET", "/api/2.0/workspace-files/{path...}"): lambda request: Answer(self._content(request.path["path"])),
            ("GET", "/api/2.0/workspace/export"): self._export,
            ("POST", "/api/2.0/workspace/delete"): self._delete,
            ("HEAD", "/api/2.0/fs/directories/{path...}"): self._head_folder,
            ("GET", "/api/2.0/fs/directories/{path...}"): self._list_folder,
            ("PUT", "/api/2.0/fs/directories/{path...}"): lambda request: self.make_folder(request.path["path"]),
            ("DELETE", "/api/2.0/fs/directories/{path...}"): lambda request: self._remove(
                _absolute(request.path["path"])
            ),
            ("HEAD", "/api/2.0/fs/files/{path...}"): lambda request: Answer(self._content(request.path["path"])),
            ("GET", "/api/2.0/fs/files/{path...}"): lambda request: Answer(self._content(request.path["path"])),
            ("PUT", "/api/2.0/fs/files/{path...}"): self._import_file,
            ("DELETE", "/api/2.0/fs/files/{path...}"): lambda request: self._remove(_absolute(request.path["path"])),
        }

    @property
    def files(self) -> dict[str, bytes]:
        return dict(self._contents)

    def make_folder(self, path: str) -> None:
        whole = PurePosixPath(_absolute(path))
        for folder in (*reversed(whole.parents), whole):
            self._objects.setdefault(str(folder), self._object(str(folder), "DIRECTORY"))

    def folder_owner(self, object_id: str) -> str | None:
        """The owner of the home that contains a folder."""
        for path, known in self._objects.items():
            if str(known["object_id"]) == object_id:
                return _home_of(path)
        return None

    def has_folder(self, path: str) -> bool:
        return self._objects.get(_absolute(path), {}).get("object_type") == "DIRECTORY"

    def write(self, path: str, content: bytes, *, overwrite: bool) -> None:
        """Write a file into an existing folder; a notebook's source becomes a notebook without the suffix.

        Raises `Refused` where the folder does not exist, where it is in another user's home, and for an existing file
        without `overwrite`.
        """
        whole = PurePosixPath(self._writable(path))
        if not self.has_folder(str(whole.parent)):
            msg = f"The parent folder ({whole.parent}) does not exist."
            raise missing(msg)
        is_notebook = whole.suffix == ".ipynb" or (whole.suffix == ".py" and content.startswith(_NOTEBOOK_HEADER))
        key = str(whole.with_suffix("")) if is_notebook else str(whole)
        if key in self._contents and not overwrite:
            raise Refused(409, "RESOURCE_ALREADY_EXISTS", f"File already exists at ({key}).")
        kind = "NOTEBOOK" if is_notebook else "FILE"
        self._objects[key] = self._object(key, kind, language="PYTHON" if is_notebook else None, size=len(content))
        self._contents[key] = content

    def drop_folder(self, path: str) -> None:
        for key in [key for key in self._objects if key == path or key.startswith(f"{path}/")]:
            self._remove(key)

    def _writable(self, path: str) -> str:
        """The absolute path.

        Raises `Refused` where it is in another user's home, and this user is no administrator.
        """
        whole = _absolute(path)
        owner = _home_of(whole)
        if owner not in {None, self._user} and not self._is_admin:
            raise Refused(403, "PERMISSION_DENIED", f"{self._user} may not write in the home of {owner}.")
        return whole

    def _object(self, path: str, kind: str, **more: Any) -> dict[str, Any]:
        self._ids += 1
        now_ms = int(time.time() * 1000)
        known = {"path": path, "object_type": kind, "object_id": self._ids, "created_at": now_ms, "modified_at": now_ms}
        return known | {name: value for name, value in more.items() if value is not None}

    def _status(self, request: Request) -> Any:
        return self._known(request.query["path"])

    def _known(self, path: str) -> dict[str, Any]:
        known = self._objects.get(_absolute(path))
        if known is None:
            msg = f"Path ({path}) doesn't exist."
            raise missing(msg)
        return known

    def _children(self, path: str) -> list[dict[str, Any]]:
        folder = self._known(path)["path"]
        return [known for key, known in sorted(self._objects.items()) if key != "/" and _parent(key) == folder]

    def _list(self, request: Request) -> Any:
        return {"objects": self._children(request.query["path"])}

    def _list_folder(self, request: Request) -> Any:
        return {
            "contents": [
                {
                    "path": child["path"],
                    "name": PurePosixPath(child["path"]).name,
                    "is_directory": child["object_type"] == "DIRECTORY",
                }
                for child in self._children(request.path["path"])
            ]
        }

    def _head_folder(self, request: Request) -> None:
        if not self.has_folder(request.path["path"]):
            msg = "directory does not exist"
            raise missing(msg)

    def _import(self, request: Request) -> None:
        content = base64.b64decode(request.json.get("content", ""))
        self.write(request.json["path"], content, overwrite=bool(request.json.get("overwrite")))

    def _import_file(self, request: Request) -> None:
        self.write(request.path["path"], request.body, overwrite=request.query.get("overwrite") == "true")

    def _content(self, path: str) -> bytes:
        self._known(path)
        if _absolute(path) not in self._contents:
            raise Refused(400, "INVALID_PARAMETER_VALUE", f"({path}) is a directory.")
        return self._contents[_absolute(path)]

    def _export(self, request: Request) -> Any:
        content = self._content(request.query["path"])
        if request.query.get("direct_download") == "true":
            return Answer(content)
        return {"content": base64.b64encode(content).decode()}

    def _delete(self, request: Request) -> None:
        path = self._writable(request.json["path"])
        self._known(path)
        children = [key for key in self._objects if key.startswith(f"{path}/")]
        if children and not request.json.get("recursive"):
            raise Refused(400, "DIRECTORY_NOT_EMPTY", f"Folder ({path}) is not empty.")
        for key in [*children, path]:
            self._remove(key)

    def _remove(self, path: str) -> None:
        self._known(path)
        del self._objects[path]
        self._contents.pop(path, None)


def _absolute(path: str) -> str:
    whole = PurePosixPath("/") / path.replace("//", "/")
    return str(whole if whole.parts[1:2] != ("Users",) else PurePosixPath("/Workspace") / whole.relative_to("/"))


def _home_of(path: str) -> str | None:
    parts = PurePosixPath(path).parts
    return parts[3] if parts[1:3] == ("Workspace", "Users") and len(parts) > 3 else None


def _parent(path: str) -> str:
    return str(PurePosixPath(path).parent)
