"""The log of the folder source: the names of all files that it took and that may still be there.

A file `N` has what micro-batch entry N took. A file `N.compact` has the entries up to N, without those of files that
were deleted since, and replaces the files before it. Each file begins with the number of its entries, so a file that
was cut off by a kill is known, and counts as never written.
"""

import contextlib
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sessionization.files import write_atomically
from sessionization.hadoop_path import AnyPath
from sessionization.spark.checkpoint.file_source_log import LOG_FILE, OUR_VERSION, RECENT_MS, TakenFile, read_lines

_RETAINED_FILES = 100
"""Spark retains the offsets of 100 micro-batches, and repeats the last one at most."""
_MOST_FILES = 1_000
_READERS = 16


class FileLog:
    """The log of one query, held in memory as the names of the files by their stream."""

    def __init__(self, folder: Path) -> None:
        """Read the log, or begin one; raises `OSError`, and `ValueError` for a log of another form."""
        self._folder = folder
        self._names: dict[str, set[str]] = {}
        self._last: list[TakenFile] = []
        self.newest = -1
        """The number of the last entry, -1 before the first."""
        folder.mkdir(parents=True, exist_ok=True)
        self._compacted, numbers = self._find_files()
        files = [self._compact_file(self._compacted)] if self._compacted >= 0 else []
        files += [folder / str(number) for number in numbers]
        self.newest = max([self._compacted, *numbers])
        with ThreadPoolExecutor(_READERS) as pool:  # each file of a network's storage takes its time
            for file, lines in zip(files, pool.map(read_lines, files), strict=True):
                if lines is None and file.name != str(self.newest):
                    msg = f"{file} is incomplete"
                    raise ValueError(msg)
                self._remember(map(TakenFile.from_json, lines or ()))
                if lines is None:
                    self.newest -= 1
        self._since_compaction = self.newest - self._compacted
        self._compacted_names = 0 if self._compacted < 0 else sum(map(len, self._names.values()))

    def names(self, stream: str) -> AbstractSet[str]:
        """The names of the files of a stream that were taken."""
        return self._names.get(stream, frozenset())

    def append(self, files: list[TakenFile], now_ms: int) -> None:
        """Add what the next micro-batch takes; the micro-batches before it must be committed."""
        if self._is_due():
            self._compact(now_ms)
        self.newest += 1
        self._write(self._folder / str(self.newest), [file.to_json() for file in files])
        self._remember(files)
        self._last = files

    def between(self, after: int, to: int) -> list[TakenFile]:
        """The files of the entries after one, up to another."""
        if to == self.newest == after + 1 and self._last:
            return self._last
        files = [self._folder / str(number) for number in range(after + 1, to + 1)]
        if not all(file.exists() for file in files):
            files = [self._compact_file(self._compacted), *(file for file in files if file.exists())]
        entries = {taken.uri: taken for file in files for taken in map(TakenFile.from_json, read_lines(file) or ())}
        return [taken for taken in entries.values() if after < taken.number <= to]

    def _find_files(self) -> tuple[int, list[int]]:
        """The newest complete compacted file, or -1, and the numbers of the files after it."""
        found = [
            (int(match[1]), match[2]) for file in self._folder.iterdir() if (match := LOG_FILE.fullmatch(file.name))
        ]
        compacted = sorted((number for number, compact in found if compact), reverse=True)
        complete = next((n for n in compacted if read_lines(self._compact_file(n)) is not None), -1)
        return complete, sorted(number for number, compact in found if not compact and number > complete)

    def _compact_file(self, number: int) -> Path:
        return self._folder / f"{number}.compact"

    def _remember(self, files: Iterable[TakenFile]) -> None:
        for file in files:
            self._names.setdefault(file.stream, set()).add(file.path.name)

    def _is_due(self) -> bool:
        """Whether to write a compacted file: it costs as much as all names, so their number has grown first."""
        files = self.newest - self._compacted
        new_names = sum(map(len, self._names.values())) - self._compacted_names
        return files >= _MOST_FILES or (files >= _RETAINED_FILES and new_names * 4 >= self._compacted_names)

    def _compact(self, now_ms: int) -> None:
        """Write all entries into one file, without those of files that are gone.

        An entry stays for an hour, and stays where none of the folder's taken files is there: its mount may be lost.
        """
        folders: dict[AnyPath, AbstractSet[str]] = {}
        remaining: dict[str, str] = {}
        files = [self._folder / str(number) for number in range(self._compacted + 1, self.newest + 1)]
        if self._compacted >= 0:
            files.insert(0, self._compact_file(self._compacted))
        for file in files:
            for line in read_lines(file) or ():
                taken = TakenFile.from_json(line)
                path = taken.path
                if path.parent not in folders:
                    folders[path.parent] = self._still_there(path.parent)
                present = folders[path.parent]
                if not present or path.name in present or taken.taken_ms > now_ms - RECENT_MS:
                    remaining[taken.uri] = line
        self._write(self._compact_file(self.newest), list(remaining.values()))
        self._delete_before(self.newest)
        self._compacted = self.newest
        self._names = {}
        self._remember(map(TakenFile.from_json, remaining.values()))
        self._compacted_names = len(remaining)

    def _still_there(self, folder: AnyPath) -> AbstractSet[str]:
        try:
            return self.names(folder.name) & {entry.name for entry in folder.iterdir()}
        except OSError:
            return frozenset()

    def _delete_before(self, compacted: int) -> None:
        for file in self._folder.iterdir():
            match = LOG_FILE.fullmatch(file.name)
            if match and int(match[1]) < compacted - (0 if match[2] else _RETAINED_FILES):
                with contextlib.suppress(OSError):  # it costs only its place
                    file.unlink()

    @staticmethod
    def _write(file: Path, lines: list[str]) -> None:
        write_atomically(file, "".join(f"{line}\n" for line in (f"{OUR_VERSION} {len(lines)}", *lines)))
