"""What Spark's own logs in a query's checkpoint say: its micro-batches, their clocks and their files."""

import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

Range = tuple[str, int, int, int]
Offsets = dict[tuple[str, int], int]

_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class Batch:
    """A micro-batch that was begun: its clock, what was new in it, and whether it was committed.

    New were files (as URIs), or ranges of topics: topic, partition, first offset, offset after the last.

    Nothing is new where the state of a stopped query was spread over other partitions: that is written down as a
    micro-batch too, with the clock and the offsets of the one before it. No row is read in it, and no timer fires.
    """

    batch_id: int
    clock_ms: int
    files: tuple[str, ...]
    ranges: tuple[Range, ...]
    is_committed: bool
    is_repartitioning: bool = False


def batches_of(query: Path) -> list[Batch]:
    """The micro-batches of a query in order; only the last can be without a commit."""
    begun = _numbered(query / "offsets")
    committed = _numbered(query / "commits")
    assert list(begun) == list(range(len(begun)))
    assert list(committed) in (list(begun), list(begun)[:-1])
    source, entries = _file_source(query / "sources")
    batches, taken = [], 0
    before: tuple[int, list[str], str | None] | None = None
    read = _initial_offsets(query / "sources" / "0" / "0")
    for batch_id, path in begun.items():
        _version, conf, *offsets = path.read_text(encoding="utf-8").splitlines()
        until = taken
        if source is not None and offsets[source] != "-":
            until = json.loads(offsets[source])["logOffset"] + 1
        files = tuple(file for at in range(taken, until) for file in entries.get(at, ()))
        reached = topic_offsets(offsets[0])
        ranges = tuple((*position, read.get(position, 0), offset) for position, offset in reached.items())
        written = json.loads(conf)
        clock_ms, partitions = written["batchTimestampMs"], written.get("conf", {}).get(_PARTITIONS)
        is_repartitioning = before is not None and before[:2] == (clock_ms, offsets) and before[2] != partitions
        batches.append(Batch(batch_id, clock_ms, files, ranges, batch_id in committed, is_repartitioning))
        taken, read, before = until, read | reached, (clock_ms, offsets, partitions)
    # They may run backwards, as the wall clock may; but a clock names its micro-batch.
    clocks_ms = [batch.clock_ms for batch in batches if not batch.is_repartitioning]
    assert len(set(clocks_ms)) == len(clocks_ms)
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


def committed_offsets(query: Path) -> Offsets:
    """How far a query is done with each partition of its topics."""
    done = [batch for batch in batches_of(query) if batch.is_committed]
    return {(topic, partition): until for batch in done for topic, partition, _, until in batch.ranges}


def topic_offsets(line: str) -> Offsets:
    """What an offset log says of topics: the offset after the last one read, by topic and partition."""
    offsets = json.loads(line) if line.startswith("{") else {}
    return {
        (topic, int(partition)): offset
        for topic, partitions in offsets.items()
        if isinstance(partitions, dict)
        for partition, offset in partitions.items()
    }


def _initial_offsets(log: Path) -> Offsets:
    """Where a query has begun to read topics."""
    return topic_offsets(log.read_text(encoding="utf-8").rpartition("\n")[2]) if log.is_file() else {}


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
