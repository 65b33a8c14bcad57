"""Files and folders that Spark reaches by Hadoop's FileSystem, such as hdfs://host/folder, used like pathlib's.

The driver itself reads and writes a few small files: the layout of a checkpoint, rows of progress, Spark's logs. On a
local disk it does so by `pathlib.Path`. For a URI it does so here, with the cluster's own settings and credentials.
"""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal
from urllib.parse import unquote, unquote_to_bytes, urlsplit
from uuid import uuid4

from sessionization.databricks import on_databricks
from sessionization.errors import ConfigurationError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+:)/")
_VOLUMES = "/Volumes/"
S3_SCHEMES = frozenset({"s3", "s3a", "s3n"})
_STORES_WHOLE_OBJECTS = S3_SCHEMES | {"gs"}
"""Storages where a file appears when it is closed, complete, and a rename would be a copy."""
_REFUSES_EXISTING = "fs.option.create.conditional.overwrite"
"""S3A's option for a request with the condition `If-None-Match: *`; other storages ignore it."""
_ERRNO_BY_CLASS = {
    "FileNotFoundException": errno.ENOENT,
    "FileAlreadyExistsException": errno.EEXIST,
    "AccessControlException": errno.EACCES,
    "AccessDeniedException": errno.EACCES,
    "ParentNotDirectoryException": errno.ENOTDIR,
    "PathIsNotDirectoryException": errno.ENOTDIR,
    "PathIsNotEmptyDirectoryException": errno.ENOTEMPTY,
}


@dataclass(frozen=True, slots=True, order=True)
class HadoopPath:
    """A file or folder by its URI, with the methods of `pathlib.Path` that the job needs.

    Needs a Spark session that has started. Raises `OSError` where `Path` does; its `strerror` is Hadoop's own message.
    Source: the interface `org.apache.hadoop.fs.FileSystem` of Hadoop 3.5.
    """

    uri: str

    def __str__(self) -> str:
        return self.uri

    def __truediv__(self, name: str) -> "HadoopPath":
        return HadoopPath(f"{self.uri}/{name}")

    @property
    def name(self) -> str:
        return self.uri.rpartition("/")[2]

    @property
    def stem(self) -> str:
        return self.name.rpartition(".")[0] or self.name

    @property
    def parent(self) -> "HadoopPath":
        return HadoopPath(self.uri.rpartition("/")[0])

    def with_name(self, name: str) -> "HadoopPath":
        return self.parent / name

    def absolute(self) -> "HadoopPath":
        return self

    def exists(self) -> bool:
        with self._open_storage() as (storage, path):
            return bool(storage.exists(path))

    def is_dir(self) -> bool:
        status = self._status()
        return status is not None and bool(status.isDirectory())

    def is_file(self) -> bool:
        status = self._status()
        return status is not None and bool(status.isFile())

    def stat(self) -> SimpleNamespace:
        """`st_size` in bytes, and the modification time as `st_mtime_ns`."""
        with self._open_storage() as (storage, path):
            status = storage.getFileStatus(path)
            modified_ms = int(status.getModificationTime())
            size = int(status.getLen())
        return SimpleNamespace(st_size=size, st_mtime_ns=modified_ms * 1_000_000)

    def iterdir(self) -> Iterator["HadoopPath"]:
        with self._open_storage() as (storage, path):
            statuses = storage.listStatusIterator(path)
            while statuses.hasNext():
                yield HadoopPath(statuses.next().getPath().toString())

    def glob(self, pattern: str) -> Iterator["HadoopPath"]:
        """The files and folders in this one whose names match."""
        return (entry for entry in (self.iterdir() if self.is_dir() else ()) if fnmatchcase(entry.name, pattern))

    def mkdir(self, *, exist_ok: Literal[True], parents: bool = True) -> None:
        """Create the folder, unless it exists; the storage creates its parents, whatever `parents` is."""
        del parents, exist_ok
        with self._open_storage() as (storage, path):
            storage.mkdirs(path)

    def read_bytes(self) -> bytes:
        with self._open_storage() as (storage, path):
            stream = storage.open(path)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def write(self, text: str, *, replaces: bool) -> None:
        """Write the file completely or not at all.

        Unless it `replaces` a file, of two programs that write it one gets `FileExistsError`. An object store shows a
        file once it is complete, and refuses a second one by the condition of its request (`If-None-Match`). Elsewhere
        a temporary file is renamed, which is one step on HDFS and on ABFS.
        """
        with self._open_storage() as (storage, path):
            if urlsplit(self.uri).scheme not in _STORES_WHOLE_OBJECTS:
                self._write_and_rename(storage, path, text, replaces=replaces)
            elif replaces:
                _write(storage.create(path, True), text)
            else:
                new = storage.createFile(path).overwrite(False).recursive().opt(_REFUSES_EXISTING, True).build()
                _write(new, text)

    def _write_and_rename(self, storage: Any, path: Any, text: str, *, replaces: bool) -> None:
        from sessionization.private_spark import java_array

        context, jvm, conf = _hadoop()
        hadoop = jvm.org.apache.hadoop.fs
        own = "" if replaces else f".{uuid4().hex}"  # two programs may write a new file at once
        temporary = hadoop.Path(self.with_name(f".{self.name}{own}.tmp").uri)
        _write(storage.create(temporary, True), text, sync=True)
        rename = getattr(hadoop, "Options$Rename")
        options = java_array(context, rename, int(replaces))
        if replaces:
            options[0] = rename.OVERWRITE
        try:
            hadoop.FileContext.getFileContext(path.toUri(), conf).rename(temporary, path, options)
        except Exception:
            storage.delete(temporary, False)
            raise

    def unlink(self, *, missing_ok: bool = False) -> None:
        with self._open_storage() as (storage, path):
            is_deleted = storage.delete(path, False)
        if not is_deleted and not missing_ok:
            raise FileNotFoundError(errno.ENOENT, "there is no such file", self.uri)

    def remove_tree(self) -> None:
        """Delete the folder with everything in it; does nothing where it does not exist."""
        with self._open_storage() as (storage, path):
            storage.delete(path, True)

    def _status(self) -> Any | None:
        try:
            with self._open_storage() as (storage, path):
                return storage.getFileStatus(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    @contextmanager
    def _open_storage(self) -> Iterator[tuple[Any, Any]]:
        """Give Hadoop's FileSystem and Path; raises `OSError` in place of a Java exception."""
        from py4j.protocol import Py4JJavaError

        _, jvm, conf = _hadoop()
        try:
            path = jvm.org.apache.hadoop.fs.Path(self.uri)
            yield path.getFileSystem(conf), path
        except Py4JJavaError as error:
            raise _os_error(error.java_exception, self.uri) from error


AnyPath = Path | HadoopPath
"""A file or folder of a mounted file system, or of a storage that Spark reaches by a URI."""


def parse_location(text: str | AnyPath) -> AnyPath:
    """Read a path or a URI.

    `file:` is a path, and so is `dbfs:/Volumes/…`, which Databricks mounts.

    Raises `ValueError` for a URI that names no folder or holds a password, and on Databricks for one of other storage
    than a volume. The message begins with the value.
    """
    if not isinstance(text, str):
        return text
    match = _SCHEME.match(text)
    if match is None:
        return Path(text)
    parts = urlsplit(text)
    is_plain = not (parts.netloc or parts.query or parts.fragment)
    if is_plain and (parts.scheme == "file" or (parts.scheme == "dbfs" and parts.path.startswith(_VOLUMES))):
        return Path(unquote(parts.path))
    if "@" in parts.netloc and ":" in parts.netloc.rpartition("@")[0]:
        msg = f"'{parts.scheme}://…' holds a password: put it into Spark's settings, where no log shows it"
    elif parts.scheme == "dbfs" or on_databricks():  # Unity Catalog gives the driver no credentials for other storage
        msg = f"{text!r} is not supported: give a folder of a volume, as in /Volumes/CATALOG/SCHEMA/VOLUME/folder"
    elif parts.scheme == "file" or not text.startswith(f"{match[1]}//") or not parts.path.strip("/"):
        msg = f"{text!r} is not a location: write a path, or a URI with a folder, as in s3a://bucket/sessions"
    else:
        return HadoopPath(text.rstrip("/"))
    raise ValueError(msg)


def path_of_uri(uri: str) -> AnyPath:
    """The path of a percent-encoded URI, as Spark writes it into its logs."""
    parts = urlsplit(uri)
    if parts.scheme in ("", "file", "dbfs"):
        return Path(os.fsdecode(unquote_to_bytes(parts.path)))
    return HadoopPath(unquote(uri))


def _write(stream: Any, text: str, *, sync: bool = False) -> None:
    """A stream that failed is not closed: an object store would show the part that it has."""
    content = text.encode()
    stream.write(content, 0, len(content))
    if sync:
        stream.hsync()
    stream.close()


def _os_error(java_error: Any, uri: str) -> OSError:
    """The `OSError` for a Java exception, with the first line of its message; three of S3's get plain words."""
    kind = str(java_error.getClass().getSimpleName())
    message = (str(java_error.getMessage() or "").splitlines() or [""])[0]
    if kind == "UnknownStoreException":
        message = "the bucket does not exist"
    elif kind == "AccessDeniedException" and "Status Code: 403" in message:
        message = "access is denied (403)"
    elif "Status Code: 412" in message:
        kind, message = "FileAlreadyExistsException", "it exists already"
    return OSError(_ERRNO_BY_CLASS.get(kind, errno.EREMOTEIO), message or kind, uri)


def _hadoop() -> tuple[Any, Any, Any]:
    """The Spark context, its JVM, which has Hadoop, and Hadoop's settings."""
    from sessionization import private_spark  # late, because it imports pyspark, which not every user of a path has

    context = private_spark.active_context()
    if context is None:
        msg = "a URI needs a Spark session with a JVM in this process, and there is none: give a path, or a volume"
        raise ConfigurationError(msg)
    return context, private_spark.jvm_of(context), private_spark.hadoop_conf(context)
