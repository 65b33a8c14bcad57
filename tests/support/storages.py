"""Jobs on other storage than a folder. Of a job at a URI, a copy at the same paths here is what the tests look at."""

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tests.support.evening import ENDS_MS, Evening, place_in_evening
from tests.support.hdfs import Hdfs
from tests.support.job import Job
from tests.support.s3 import S3
from tests.support.volume import VolumeJob

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


CHECKS = ("storage", "input", "tables", "lease", "stream")
_LONGEST_S = 600
_PULLS = 50


class Storage(Protocol):
    """`uri` is where Spark reaches it, such as `hdfs://127.0.0.1:PORT`. `look_every_s` is how often a test may look."""

    uri: str
    look_every_s: float


class RemoteJob(Job):
    """A job that names its folders by URIs; each has a copy here, at the same path."""

    def __init__(self, spark: SparkSession, folder: Path, storage: Storage, *options: str) -> None:
        super().__init__(folder, *options)
        self.uri, self.files = storage.uri, RemoteFiles(spark, storage.uri)
        self._look_every_s = storage.look_every_s

    def location_of(self, folder: Path) -> str:
        return f"{self.uri}{folder}"

    def release(self, evening: Evening, files: int | None = None) -> None:
        """Move files of an evening into the input folder, in the evening's order: each appears there at once."""
        known = set(self.input.glob("*/*.json"))
        evening.release(self.input, files)
        for file in sorted(set(self.input.glob("*/*.json")) - known, key=place_in_evening):
            self.files.push(file, str(file))

    def wait_until(
        self, reached: Callable[[], bool], awaited: str, *, poll_s: float = 0, within_s: float = _LONGEST_S
    ) -> None:
        """As of any job, with new copies before each look."""

        def reached_by_copies() -> bool:
            self.look()
            return reached()

        super().wait_until(reached_by_copies, awaited, poll_s=max(poll_s, self._look_every_s), within_s=within_s)

    def look(self) -> None:
        """Copy what tells how far the job is: Spark's logs, each of one moment, and then the log of the changes."""
        for query in self.watched:
            self._pull(self.checkpoints / query)
        self._pull(self.warehouse / "session_changes" / "_delta_log")

    def pull(self) -> None:
        """Copy all that a stopped job has left, also the state."""
        for folder in (self.input, self.warehouse, self.checkpoints):
            self.files.pull(str(folder), folder, skip=())

    def _pull(self, folder: Path) -> None:
        for _ in range(_PULLS):
            if not self.files.pull(str(folder), folder):
                return
        msg = f"{folder} is never the same twice"
        raise AssertionError(msg)


class CatalogJob(Job):
    """A job with its tables in a schema of `spark_catalog`, whose folder a local engine has beside its log."""

    def __init__(self, folder: Path, *options: str) -> None:
        super().__init__(folder, *options)
        self.warehouse = self.checkpoints / "spark-warehouse"
        self.conf = {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        }

    def table_options(self) -> tuple[str, ...]:
        return ("--catalog", "spark_catalog", "--schema", "default")


def job_on(name: str, spark: SparkSession, folder: Path, running: ExitStack, *options: str) -> Job:
    """A job on the storage of this name, which is started."""
    job: Job
    if name == "hdfs":
        job = RemoteJob(spark, folder, running.enter_context(Hdfs(folder / "hdfs")), *options)
    elif name == "s3":
        s3 = running.enter_context(S3(folder / "s3"))
        s3.let_reach(spark)
        job = RemoteJob(spark, folder, s3, *options)
        job.conf = s3.settings()
    else:
        job = {"catalog": CatalogJob, "folder": Job, "volume": VolumeJob}[name](folder, *options)
    return running.enter_context(job)


def is_on_s3(job: Job) -> bool:
    return isinstance(job, RemoteJob) and job.uri.startswith("s3a:")


def evening_of(job: Job, folder: Path, **options: Any) -> Evening:
    """S3 takes no modification time: there the messages are as old as the files that hold them."""
    return Evening(folder / "staging", time.time_ns() // 1_000_000 if is_on_s3(job) else ENDS_MS, **options)


def check_preflight(job: Job, lines: Iterable[str]) -> None:
    """The preflight has found the place fit, and says what S3 does not promise."""
    verdicts = [line for line in lines if line.startswith(("ok ", "FAILED", "warning"))]
    warnings = [line for line in verdicts if not line.startswith("ok ")]
    assert all(line.startswith("warning  lease: on S3 the log store") for line in warnings)
    assert len(warnings) == is_on_s3(job)
    assert all(any(line.startswith(f"ok       {check}:") for line in verdicts) for check in CHECKS)
