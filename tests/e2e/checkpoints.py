"""What Spark's own logs in a query's checkpoint say: its micro-batches, their clocks and their files."""

import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse


@dataclass(frozen=True)
class Batch:
    """A micro-batch that was begun: its clock, the files that were new in it (as URIs), and whether it was committed."""

    batch_id: int
    clock_ms: int
    files: tuple[str, ...]
    is_committed: bool


def batches_of(query: Path) -> list[Batch]:
    """The micro-batches of a query in order; only the last can be without a commit."""
    begun = _numbered(query / "offsets")
    committed = _numbered(query / "commits")
    assert list(begun) == list(range(len(begun)))
    assert list(committed) in (list(begun), list(begun)[:-1])
    source, entries = _file_source(query / "sources")
    batches, taken = [], 0
    for batch_id, path in begun.items():
        _version, conf, *offsets = path.read_text(encoding="utf-8").splitlines()
        until = taken
        if source is not None and offsets[source] != "-":
            until = json.loads(offsets[source])["logOffset"] + 1
        files = tuple(file for at in range(taken, until) for file in entries.get(at, ()))
        batches.append(Batch(batch_id, json.loads(conf)["batchTimestampMs"], files, batch_id in committed))
        taken = until
    clocks_ms = [batch.clock_ms for batch in batches]
    assert clocks_ms == sorted(set(clocks_ms))
    return batches


def last_begun(query: Path) -> int:
    """The newest micro-batch that was planned, -1 before the first."""
    return max(_numbered(query / "offsets"), default=-1)


def last_committed(query: Path) -> int:
    """The newest micro-batch that is done, -1 before the first."""
    return max(_numbered(query / "commits"), default=-1)


def committed_files(query: Path) -> set[Path]:
    """The files that a query is done with."""
    return {path_of(uri) for batch in batches_of(query) if batch.is_committed for uri in batch.files}


def merged_before(query: Path) -> int:
    """The version of the table that a query reads as a stream, before which it is done with all; 0 at first."""
    batch_id = last_committed(query)
    if batch_id < 0:
        return 0
    _version, _conf, offset = (query / "offsets" / str(batch_id)).read_text(encoding="utf-8").splitlines()
    return json.loads(offset)["reservoirVersion"]


def path_of(uri: str) -> Path:
    return Path(unquote(urlparse(uri).path))


def _numbered(folder: Path) -> dict[int, Path]:
    numbers = sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit()) if folder.is_dir() else []
    return {number: folder / str(number) for number in numbers}


def _file_source(sources: Path) -> tuple[int | None, dict[int, list[str]]]:
    """Which of a query's sources reads files, and its log: files by the log's own offset.

    Every tenth entry of that log is a compact one, which holds all before it once more.
    """
    folders = sorted(sources.iterdir()) if sources.is_dir() else []
    for folder in folders:
        entries: dict[int, list[str]] = {}
        for path in folder.iterdir():
            if path.name.removesuffix(".compact").isdigit():
                _version, *lines = path.read_text(encoding="utf-8").splitlines()
                for entry in map(json.loads, filter(lambda line: '"path"' in line, lines)):
                    files = entries.setdefault(entry["batchId"], [])
                    if entry["path"] not in files:
                        files.append(entry["path"])
        if entries:
            return int(folder.name), entries
    return None, {}
