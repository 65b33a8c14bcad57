"""The input files that the job has taken: a log in the checkpoint, which both queries read as their source.

    input_files/12.take    the files of one take, a line of JSON for each
    input_files/11.names   the files of the takes up to number 11, without those that were deleted since

A take is written once, before a query reads it. Takes that both queries have committed are merged into the names. On a
volume a kill may leave a part of a file. Of a take its complete lines count, for the log and for Spark alike; a part of
the names, which lacks its last line, does not.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from itertools import chain, takewhile
from urllib.parse import unquote_to_bytes

from sessionization.durations import HOUR_MS
from sessionization.files import newest_number, write_atomically, write_new
from sessionization.hadoop_path import AnyPath, path_of_uri

TAKES_FOLDER = "input_files"
TAKE_ENDING = ".take"
_NAMES_ENDING = ".names"
_LAST_LINE = "end"
_LINE_END = "}"  # which a URI and a number do not have
_LOG_FILE = re.compile(r"(\d+)(\.take|\.names)")
_MANY_TAKES = 1_000
_FORGET_AFTER_MS = HOUR_MS
"""How long the name of a deleted file is remembered: a listing may leave out a file for a moment."""


@dataclass(frozen=True, slots=True)
class TakenFile:
    """A file: its modification time, the job's clock when it was taken, and its size in bytes (0 at a URI)."""

    uri: str
    modified_ms: int
    taken_ms: int
    size: int = 0

    @property
    def path(self) -> AnyPath:
        return path_of_uri(self.uri)

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
        self._merged, files = _newest_names(folder)
        self.newest = newest_number(folder, [self._merged, *take_numbers(folder)], TAKE_ENDING)
        """The number of the newest take, -1 before the first."""
        self._takes = list(range(self._merged + 1, self.newest + 1))
        self._names: dict[str, set[str]] = {}
        self._missed_ms: dict[str, int] = {}
        """By URI the time of the first merge that missed a file."""
        for file in chain(files, read_takes(folder, self._takes)):
            self._remember(file)

    def names(self, stream: str) -> AbstractSet[str]:
        """The names of the files of a stream that were taken."""
        return self._names.get(stream, frozenset())

    @property
    def is_merge_due(self) -> bool:
        """Whether there are many takes; a merge writes all names, so it is rarer where there are many names."""
        return len(self._takes) >= max(_MANY_TAKES, sum(map(len, self._names.values())) // 100)

    def append(self, files: Sequence[TakenFile]) -> None:
        """Write a take; raises `OSError`, such as `FileExistsError` where another job has written it."""
        write_new(self._folder / f"{self.newest + 1}{TAKE_ENDING}", _text(file.to_json() for file in files))
        self.newest += 1
        self._takes.append(self.newest)
        for file in files:
            self._remember(file)

    def merge(self, committed: AbstractSet[int], present: dict[str, AbstractSet[str]], now_ms: int) -> None:
        """Merge the oldest takes into the names, up to the first one that is not `committed`.

        What is merged is deleted by the next merge, so that a listing which is some seconds old shows a complete log.
        The name of a deleted file is forgotten by a merge that comes an hour after one which missed it first. All names
        of a stream stay that has none of its taken files: its mount may be lost. Raises `OSError`; the log is then
        complete.

        Args:
            committed: the takes that both queries have read and committed.
            present: the names that are in the folder of each stream.
            now_ms: the job's clock.
        """
        merged = list(takewhile(committed.__contains__, self._takes))
        if not merged:
            return
        files: dict[str, TakenFile] = {}
        for file in chain(merged_files(self._folder), read_takes(self._folder, merged)):
            files.setdefault(file.uri, file)
        lost = {stream for stream, names in self._names.items() if names.isdisjoint(present.get(stream, ()))}
        remaining = []
        for file in files.values():
            stream, name = file.stream_and_name
            if stream in lost or name in present[stream]:
                self._missed_ms.pop(file.uri, None)
                remaining.append(file)
            elif now_ms - self._missed_ms.setdefault(file.uri, now_ms) < _FORGET_AFTER_MS:
                remaining.append(file)
            else:
                self._names[stream].discard(name)
                del self._missed_ms[file.uri]
        text = _text((*(file.to_json() for file in remaining), _LAST_LINE))
        write_atomically(self._folder / f"{merged[-1]}{_NAMES_ENDING}", text)
        former, self._merged = self._merged, merged[-1]
        self._takes = self._takes[len(merged) :]
        for ending, until in ((TAKE_ENDING, former), (_NAMES_ENDING, former - 1)):
            for number in _numbers(self._folder, ending):
                if number <= until:
                    (self._folder / f"{number}{ending}").unlink(missing_ok=True)

    def _remember(self, file: TakenFile) -> None:
        stream, name = file.stream_and_name
        self._names.setdefault(stream, set()).add(name)


def read_takes(folder: AnyPath, numbers: Iterable[int]) -> Iterator[TakenFile]:
    """The files of takes."""
    for number in numbers:
        lines = _read_lines(folder / f"{number}{TAKE_ENDING}")
        yield from map(TakenFile.from_json, lines if not lines or is_complete(lines[-1]) else lines[:-1])


def is_complete(line: str) -> bool:
    """Whether a line of a take was not cut off."""
    return line.endswith(_LINE_END)


def take_numbers(folder: AnyPath) -> list[int]:
    """The numbers of the takes, in order."""
    return _numbers(folder, TAKE_ENDING)


def merged_files(folder: AnyPath) -> Iterator[TakenFile]:
    """The files of the merged takes, which both queries have committed."""
    return _newest_names(folder)[1]


def _newest_names(folder: AnyPath) -> tuple[int, Iterator[TakenFile]]:
    """The last take that is merged, or -1, and the files of the merged takes."""
    for number in sorted(_numbers(folder, _NAMES_ENDING), reverse=True):
        lines = _read_lines(folder / f"{number}{_NAMES_ENDING}")
        if lines and lines[-1] == _LAST_LINE:
            return number, map(TakenFile.from_json, lines[:-1])
    return -1, iter(())


def _numbers(folder: AnyPath, ending: str) -> list[int]:
    found = (_LOG_FILE.fullmatch(file.name) for file in folder.iterdir())
    return sorted(int(match[1]) for match in found if match and match[2] == ending)


def _read_lines(file: AnyPath) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
