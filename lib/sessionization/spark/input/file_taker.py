"""Takes the files that appear in the streams' folders, a little before each micro-batch.

Spark's source of files lists folders below, judges files by their modification times, cannot open every name, and
remembers each name for ever. So a thread of the job lists these folders, and writes what is new into the log of takes
(`take_log`), which is what Spark reads as a stream.
"""

import os
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from itertools import accumulate, pairwise
from pathlib import Path
from urllib.parse import quote_from_bytes

from sessionization.clock import wall_clock_ms
from sessionization.errors import CheckpointError, StreamError
from sessionization.files import is_on_volume
from sessionization.hadoop_path import AnyPath
from sessionization.spark.checkpoint.file_source_log import committed_takes
from sessionization.spark.checkpoint.take_log import TakeLog, TakenFile
from sessionization.spark.input.stream_folders import list_folder

MOST_FILES = 1_000
"""The files of a micro-batch at most, so that heartbeats continue while the job works off a backlog."""
_TASK_BYTES = 2 * 1024 * 1024
"""From how much on files are divided among tasks."""
_OPEN_BYTES = 256 * 1024
"""What opening a file costs, in bytes read meanwhile."""
_LEAD_S = 0.1
"""How long before a micro-batch a listing is done."""
_LISTINGS_PER_TRIGGER = 4
_PAUSE_PER_LISTING = 10
"""The pause after a listing at least, in times its duration."""
_MERGE_EVERY_S = 60
_FIRST_LISTING_S = 30
_STOP_S = 5


class FileTaker:
    """Takes files into one checkpoint's log, once each, the ones with the earliest modification times first."""

    def __init__(
        self,
        folders: Sequence[Path],
        log_folder: AnyPath,
        tasks: int,
        queries: Sequence[AnyPath] = (),
        check_lease: Callable[[], None] = lambda: None,
    ) -> None:
        """Read the log.

        Args:
            folders: of the streams, each of the name of its stream.
            log_folder: the folder of the log.
            tasks: how many takes a micro-batch reads at once.
            queries: the checkpoints of the queries that read the log.
            check_lease: raises `StreamError` where another job holds the checkpoint's lease.

        Raises `CheckpointError` where the log cannot be read.
        """
        self._folders = {folder.name: folder.absolute() for folder in folders}
        self._tasks, self._queries = tasks, queries
        self._check_lease = check_lease
        try:
            self._log = TakeLog(log_folder)
        except (OSError, ValueError, TypeError) as error:
            msg = f"{log_folder}: the log of the input files cannot be read ({error}): restore it from a backup"
            raise CheckpointError(msg) from error
        self._stop, self._has_listed = threading.Event(), threading.Event()
        self._failure: Exception | None = None
        self._next_merge_s = 0.0
        self.unread: dict[str, str] = {}
        """What is not read, as lines for a person (`StreamFolder.warnings`)."""

    def take(self) -> None:
        """Take the files that have appeared; raises `OSError` where the log cannot be written."""
        files: list[TakenFile] = []
        unread: dict[str, str] = {}
        now_ms = wall_clock_ms()
        for stream, folder in self._folders.items():
            found = list_folder(folder, self._log.names(stream))
            unread |= found.warnings(stream)
            files += [_taken(path, status, now_ms) for path, status in found.files]
        self.unread = unread
        files.sort(key=lambda file: (file.modified_ms, file.uri))
        for take in _takes(files, self._tasks):
            if self._stop.is_set():  # another job may take files now
                break
            self._check_lease()
            self._log.append(take)

    def merge_takes(self) -> None:
        """Shorten the log where it is long; raises the errors of `committed_takes`."""
        if not self._queries or not self._log.is_merge_due or time.monotonic() < self._next_merge_s:
            return
        self._next_merge_s = time.monotonic() + _MERGE_EVERY_S
        committed = set.intersection(*map(committed_takes, self._queries))
        present = {stream: _present_names(folder) for stream, folder in self._folders.items()}
        self._check_lease()
        self._log.merge(committed, present, wall_clock_ms())

    @contextmanager
    def running(self, every_ms: int) -> Iterator[None]:
        """Take files in the background while the body runs, several times per `every_ms`, and shortly before its end.

        The body begins after the first listing, or after half a minute where a mount does not answer.
        """
        thread = threading.Thread(target=self._run, args=(every_ms / 1_000,), name="file taker", daemon=True)
        thread.start()
        self._has_listed.wait(_FIRST_LISTING_S)
        try:
            yield
        finally:
            self._stop.set()
            thread.join(_STOP_S)

    def check(self) -> None:
        """Raises `StreamError` where the background has ended."""
        if isinstance(self._failure, OSError):
            msg = (
                f"the log of the input files cannot be written ({self._failure.strerror}): "
                "see to the storage of --checkpoints, then start again: nothing is lost"
            )
            raise StreamError(msg) from self._failure
        if self._failure is not None:
            raise self._failure

    def _run(self, every_s: float) -> None:
        try:
            while not self._stop.is_set():
                began_s = time.monotonic()
                self.take()
                self._has_listed.set()
                took_s = time.monotonic() - began_s
                # Spark has just replaced a file of its log, or the log of a query is damaged, which its start tells.
                with suppress(OSError, ValueError, LookupError, TypeError, CheckpointError):
                    self.merge_takes()
                self._stop.wait(_pause_s(every_s, took_s, time.time()))
        except Exception as error:  # noqa: BLE001 - the job's own thread raises it
            self._failure = error
            self._has_listed.set()


def _pause_s(every_s: float, took_s: float, now_s: float) -> float:
    """How long to wait, so that a listing is done `_LEAD_S` before a multiple of `every_s`.

    A micro-batch that begins late, because the one before took long, waits for no more than a part of it.
    """
    pause_s = max(_LEAD_S, took_s * _PAUSE_PER_LISTING)
    lead_s, period_s = _LEAD_S + took_s, every_s / _LISTINGS_PER_TRIGGER
    return pause_s if period_s < 2 * lead_s else pause_s + -(now_s + pause_s + lead_s) % period_s


def _present_names(folder: Path) -> AbstractSet[str]:
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in entries}
    except OSError:
        return frozenset()


def _taken(path: str, status: os.stat_result, now_ms: int) -> TakenFile:
    scheme = "dbfs:" if is_on_volume(Path(path)) else "file://"  # as Spark writes it
    uri = f"{scheme}{quote_from_bytes(os.fsencode(path))}"
    return TakenFile(uri, status.st_mtime_ns // 1_000_000, now_ms, status.st_size)


def _takes(files: Sequence[TakenFile], tasks: int) -> Iterator[Sequence[TakenFile]]:
    """Divide files into takes of about the same size, which a micro-batch reads at once; small ones are one take."""
    for at in range(0, len(files), MOST_FILES):
        batch = files[at : at + MOST_FILES]
        sizes = list(accumulate(_OPEN_BYTES + file.size for file in batch))
        count = min(tasks, -(-sizes[-1] // _TASK_BYTES))
        ends = [bisect_right(sizes, sizes[-1] * share // count) for share in range(1, count + 1)]
        for begin, end in pairwise([0, *ends]):
            if begin < end:
                yield batch[begin:end]
