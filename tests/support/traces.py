"""The progress of a running job, read from its folders so cheaply that a test can poll it every millisecond."""

import json
import os
from enum import StrEnum
from pathlib import Path

from tests.support.delta import read_table
from tests.support.job import Job


class Stage(StrEnum):
    """How far the first uncommitted micro-batch of `sessionize` has got; `NOT_BEGUN` right after a commit."""

    NOT_BEGUN = "not_begun"
    OFFSET_LOGGED = "offset_logged"
    STATE_HALF_COMMITTED = "state_half_committed"
    STATE_COMMITTED = "state_committed"
    CHANGES_COMMITTED = "changes_committed"


class _Numbered:
    """Finds the newest of files that are numbered without a gap and never removed; one system call if none is new."""

    def __init__(self, folder: Path, name: str = "{}") -> None:
        self._pattern = str(folder / name)
        self._newest = -1

    def newest(self) -> int:
        while os.path.exists(self.path(self._newest + 1)):  # noqa: PTH110 - half the time of the same through pathlib
            self._newest += 1
        return self._newest

    def path(self, number: int) -> str:
        return self._pattern.format(number)


class _TableLog:
    """A Delta log: the newest micro-batch that each query has written, and all files that the log ever named."""

    def __init__(self, table: Path) -> None:
        self._versions = _Numbered(table / "_delta_log", "{:020}.json")
        self._read = -1
        self._batches: dict[str, int] = {}
        self._files: set[str] = set()

    def last_batch(self, query: str) -> int:
        self._read_new_entries()
        return self._batches.get(query, -1)

    def files(self) -> set[str]:
        self._read_new_entries()
        return self._files

    def _read_new_entries(self) -> None:
        while self._read < self._versions.newest():
            self._read += 1
            for line in Path(self._versions.path(self._read)).read_text(encoding="utf-8").splitlines():
                match json.loads(line):
                    case {"commitInfo": {"userMetadata": str(name)}}:
                        writer, _, batch_id = name.rpartition(" ")
                        self._batches[writer.rpartition("/")[2]] = int(batch_id)
                    case {"add": {"path": path}}:
                        self._files.add(path)


class Traces:
    """The folders of a job, over all of its starts."""

    def __init__(self, job: Job) -> None:
        self._started = {query: _Numbered(job.checkpoints / query / "offsets") for query in ("sessionize", "archive")}
        self._committed = {query: _Numbered(job.checkpoints / query / "commits") for query in ("sessionize", "archive")}
        self._sessions = job.warehouse / "sessions"
        self._tables = {name: _TableLog(job.warehouse / name) for name in ("session_changes", "raw_events", "sessions")}
        self._progress = job.warehouse / "stream_progress"
        self._progress_commits = _Numbered(self._progress / "_delta_log", "{:020}.json")
        self._progress_waiting = job.checkpoints / "progress"
        self._state = job.checkpoints / "sessionize" / "state" / "0"
        self._partitions: list[str] = []

    def started(self, query: str = "sessionize") -> int:
        """The newest started micro-batch, -1 before the first."""
        return self._started[query].newest()

    def committed(self, query: str = "sessionize") -> int:
        """The newest committed micro-batch, -1 before the first."""
        return self._committed[query].newest()

    def written(self, table: str, query: str) -> int:
        """The newest micro-batch of a query whose rows a table has, -1 before the first."""
        return self._tables[table].last_batch(query)

    def progress_commits(self) -> int:
        """The newest version of `stream_progress`."""
        return self._progress_commits.newest()

    def waiting_progress(self) -> set[tuple[str, int]]:
        """Query and micro-batch of the rows of `stream_progress` that are stored in the checkpoint."""
        names = (path.stem.rpartition("-") for path in self._progress_waiting.glob("[!.]*.json"))
        return {(query, int(batch_id)) for query, _, batch_id in names}

    def appended_progress(self) -> set[tuple[str, int]]:
        """Query and micro-batch of the rows in `stream_progress`; reads the whole table."""
        return set(read_table(self._progress).of("query", "batch_id"))

    def stage(self) -> tuple[int, Stage]:
        """The first micro-batch that is not committed, and how far it has got."""
        batch_id = self.committed() + 1
        if self.started() < batch_id:
            return batch_id, Stage.NOT_BEGUN
        if self.written("session_changes", "sessionize") >= batch_id:
            # The commit may have come since the first look.
            return batch_id, Stage.CHANGES_COMMITTED if self.committed() < batch_id else Stage.NOT_BEGUN
        changelogs = self._changelogs(batch_id)
        if not any(changelogs):
            return batch_id, Stage.OFFSET_LOGGED
        return batch_id, Stage.STATE_COMMITTED if all(changelogs) else Stage.STATE_HALF_COMMITTED

    def takes_no_files(self, batch_id: int) -> bool:
        """Whether a started micro-batch reads no new file compared with the micro-batch before it."""
        return batch_id > 0 and self._files_taken(batch_id) == self._files_taken(batch_id - 1)

    def unnamed_files(self) -> set[str]:
        """The files of `sessions` that no version names: a MERGE has written them and not committed."""
        found = {
            f"{part}/{name}"
            for part in _names(self._sessions)
            if part.startswith("_part=")
            for name in _names(f"{self._sessions}/{part}")
            if name.endswith(".parquet") and name[0] != "."
        }
        return found - self._tables["sessions"].files()

    def _changelogs(self, batch_id: int) -> list[bool]:
        """For each state partition, whether it has committed a micro-batch."""
        if not self._partitions and self._state.is_dir():
            # The first micro-batch creates the folders one by one; their number is known only after it.
            found = [str(path) for path in self._state.iterdir() if path.name.isdigit()]
            if batch_id > 0:
                self._partitions = found
            return [os.path.exists(f"{path}/{batch_id + 1}.changelog") for path in found]  # noqa: PTH110
        return [os.path.exists(f"{path}/{batch_id + 1}.changelog") for path in self._partitions]  # noqa: PTH110

    def _files_taken(self, batch_id: int) -> list[str]:
        lines = Path(self._started["sessionize"].path(batch_id)).read_text(encoding="utf-8").splitlines()
        return [line for line in lines if line.startswith(('{"logOffset"', '{"sourceVersion"'))]


def _names(folder: str | Path) -> list[str]:
    try:
        # os.listdir takes half the time of pathlib.
        return os.listdir(folder)  # noqa: PTH208
    except FileNotFoundError:
        return []
