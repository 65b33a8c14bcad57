"""The sessionize job with all of its folders at a URI. A copy at the same paths here is what the tests look at."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from pyspark.sql import SparkSession

from tests.support.evening import Evening, place_in_evening
from tests.support.job import Job
from tests.support.remote_files import RemoteFiles

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
