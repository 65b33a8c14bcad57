"""The input files that the job has taken: a log in the checkpoint, which both queries read as their source.

    input_files/12.take    the files of one take, a line of JSON for each piece of a file
    input_files/11.names   the files of the takes up to number 11, without those that were deleted since

A take is written once, before a query reads it. Takes that both queries have committed are merged into the names.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from itertools import takewhile
from urllib.parse import unquote_to_bytes

from sessionization.durations import HOUR_MS
from sessionization.files import write_atomically
from sessionization.hadoop_path import AnyPath, path_of_uri

TAKES_FOLDER = "input_files"
TAKE_ENDING = ".take"
_NAMES_ENDING = ".names"
_LOG_FILE = re.compile(r"(\d+)(\.take|\.names)")
_MANY_TAKES = 1_000
_RECENT_MS = HOUR_MS
"""How long the name of a deleted file is remembered: a listing may leave out a file for a moment."""


@dataclass(frozen=True, slots=True)
class TakenFile:
    """A file, or the piece of it from byte `begin` to `end`: its modification time, and the job's clock at the take."""

    uri: str
    modified_ms: int
    taken_ms: int
    begin: int = 0
    end: int = 0

    @property
    def path(self) -> AnyPath:
        return path_of_uri(self.uri)

    @property
    def size(self) -> int:
        """In bytes; 0 of a file at a URI."""
        return self.end - self.begin

    @property
    def stream_and_name(self) -> tuple[str, str]:
        """The names of the file's folder, and of the file."""
        stream, name = self.uri.split("/")[-2:]
        return stream, os.fsdecode(unquote_to_bytes(name))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> "TakenFile":
        return cls(**json.loads(line))


class TakeLog:
    """The log of one checkpoint. The names of all taken files are held in memory, by stream."""

    def __init__(self, folder: AnyPath) -> None:
        """Read the log, or begin one; raises `OSError`, and `ValueError` or `TypeError` for a log of another form."""
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        takes, names = _numbers(folder)
        self._delete([number for number in takes if number <= names])  # a kill has left them
        self._takes = [number for number in takes if number > names]
        self.newest = max(names, *takes, -1)
        """The number of the newest take, -1 before the first."""
        self._names: dict[str, set[str]] = {}
        for file in (*merged_files(folder), *read_takes(folder, self._takes)):
            self._remember(file)

    def names(self, stream: str) -> AbstractSet[str]:
        """The names of the files of a stream that were taken."""
        return self._names.get(stream, frozenset())

    @property
    def is_merge_due(self) -> bool:
        """Whether there are many takes; a merge writes all names, so it is rarer where there are many names."""
        return len(self._takes) >= max(_MANY_TAKES, sum(map(len, self._names.values())) // 100)

    def append(self, pieces: Sequence[TakenFile]) -> None:
        """Write a take; raises `OSError`."""
        _write(self._folder / f"{self.newest + 1}{TAKE_ENDING}", pieces)
        self.newest += 1
        self._takes.append(self.newest)
        for piece in pieces:
            self._remember(piece)

    def merge(self, committed: AbstractSet[int], present: dict[str, AbstractSet[str]], now_ms: int) -> None:
        """Merge the oldest takes into the names, up to the first one that is not `committed`, and delete them.

        Names of deleted files are forgotten after an hour. All names of a stream stay that has none of its taken files:
        its mount may be lost. Raises `OSError`; the log is then complete.

        Args:
            committed: the takes that both queries have read and committed.
            present: the names that are in the folder of each stream.
            now_ms: the job's clock.
        """
        merged = list(takewhile(committed.__contains__, self._takes))
        if not merged:
            return
        files: dict[str, TakenFile] = {}
        for file in (*merged_files(self._folder), *read_takes(self._folder, merged)):
            files.setdefault(file.uri, file)
        lost = {stream for stream, names in self._names.items() if names.isdisjoint(present.get(stream, ()))}
        remaining = []
        for file in files.values():
            stream, name = file.stream_and_name
            if stream in lost or name in present[stream] or file.taken_ms > now_ms - _RECENT_MS:
                remaining.append(file)
            else:
                self._names[stream].discard(name)
        _, former_names = _numbers(self._folder)
        _write(self._folder / f"{merged[-1]}{_NAMES_ENDING}", remaining)
        self._delete(merged)
        if former_names >= 0:
            (self._folder / f"{former_names}{_NAMES_ENDING}").unlink(missing_ok=True)
        self._takes = self._takes[len(merged) :]

    def _remember(self, file: TakenFile) -> None:
        stream, name = file.stream_and_name
        self._names.setdefault(stream, set()).add(name)

    def _delete(self, takes: list[int]) -> None:
        for number in takes:
            (self._folder / f"{number}{TAKE_ENDING}").unlink(missing_ok=True)


def read_takes(folder: AnyPath, numbers: Iterable[int]) -> Iterator[TakenFile]:
    """The files of takes that are not merged; of a large file all pieces."""
    for number in numbers:
        yield from _read(folder / f"{number}{TAKE_ENDING}")


def take_numbers(folder: AnyPath) -> list[int]:
    """The numbers of the takes, in order."""
    return _numbers(folder)[0]


def merged_files(folder: AnyPath) -> Iterator[TakenFile]:
    """The files of the merged takes, which both queries have committed."""
    _, names = _numbers(folder)
    if names >= 0:
        yield from _read(folder / f"{names}{_NAMES_ENDING}")


def _numbers(folder: AnyPath) -> tuple[list[int], int]:
    """The takes in order, and the last one that is merged, or -1."""
    found = [(int(match[1]), match[2]) for file in folder.iterdir() if (match := _LOG_FILE.fullmatch(file.name))]
    takes = sorted(number for number, ending in found if ending == TAKE_ENDING)
    return takes, max((number for number, ending in found if ending == _NAMES_ENDING), default=-1)


def _read(file: AnyPath) -> Iterator[TakenFile]:
    return map(TakenFile.from_json, file.read_text(encoding="utf-8").splitlines())


def _write(file: AnyPath, files: Iterable[TakenFile]) -> None:
    write_atomically(file, "".join(f"{taken.to_json()}\n" for taken in files))
