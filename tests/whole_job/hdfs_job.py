"""The sessionize job with all of its folders on HDFS. A copy at the same paths here is what the tests look at."""

from collections.abc import Callable
from pathlib import Path

from tests.whole_job.evening import Evening
from tests.whole_job.hdfs import Hdfs
from tests.whole_job.job import Job

QUERIES = ("sessionize", "archive", "rollup")
_LONGEST_S = 300
_POLL_S = 0.2  # a look costs a dozen requests
_PULLS = 50


class HdfsJob(Job):
    """A job that names its folders as `hdfs://127.0.0.1:PORT/PATH`; each has a copy here, at the same path.

    `watched` are the queries whose logs are copied before each look.
    """

    def __init__(self, folder: Path, hdfs: Hdfs, *options: str) -> None:
        super().__init__(folder, *options)
        self.watched: tuple[str, ...] = QUERIES
        self._hdfs = hdfs

    def location_of(self, folder: Path) -> str:
        return f"{self._hdfs.uri}{folder}"

    def release(self, evening: Evening, files: int | None = None) -> None:
        """Move files of an evening into the input folder: each appears there at once, with its modification time."""
        known = set(self.input.glob("*/*.json"))
        evening.release(self.input, files)
        for file in set(self.input.glob("*/*.json")) - known:
            self._hdfs.files.push(file, str(file))

    def wait_until(
        self, reached: Callable[[], bool], awaited: str, *, poll_s: float = _POLL_S, within_s: float = _LONGEST_S
    ) -> None:
        """As of any job, with new copies before each look."""

        def reached_by_copies() -> bool:
            self.look()
            return reached()

        super().wait_until(reached_by_copies, awaited, poll_s=max(poll_s, _POLL_S), within_s=within_s)

    def look(self) -> None:
        """Copy what tells how far the job is: Spark's logs, each of one moment, and then the log of the changes."""
        for query in self.watched:
            self._pull(self.checkpoints / query)
        self._pull(self.warehouse / "session_changes" / "_delta_log")

    def pull(self) -> None:
        """Copy all that a stopped job has left, also the state."""
        for folder in (self.input, self.warehouse, self.checkpoints):
            self._hdfs.files.pull(str(folder), folder, skip=())

    def _pull(self, folder: Path) -> None:
        for _ in range(_PULLS):
            if not self._hdfs.files.pull(str(folder), folder):
                return
        msg = f"{folder} is never the same twice"
        raise AssertionError(msg)
