"""Reads Spark's own logs in a query's checkpoint: its micro-batches, their clocks and their files."""

import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

Range = tuple[str, int, int, int]
Offsets = dict[tuple[str, int], int]

_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class Batch:
    """A started micro-batch: its clock, its new input, and whether it was committed.

    The new input is files (as URIs), or ranges of topics: topic, partition, first offset, offset after the last.

    Rescaling the state of a stopped query is logged as a micro-batch too, with the clock and the offsets of the one
    before it and without new input. It reads no row, and no timer fires in it.
    """

    batch_id: int
    clock_ms: int
    files: tuple[str, ...]
    ranges: tuple[Range, ...]
    is_committed: bool
    is_repartitioning: bool = False
    offsets: tuple[str, ...] = ()
    """How far it reads each source, as Spark logs it; `offsets_before`, how far the one before it did."""
    offsets_before: tuple[str, ...] = ()


def batches_of(query: Path) -> list[Batch]:
    """The micro-batches of a query in order; only the last can be without a commit."""
    started = _numbered(query / "offsets")
    committed = _numbered(query / "commits")
    assert list(started) == list(range(len(started)))
    assert list(committed) in (list(started), list(started)[:-1])
    source, entries = _file_source(query / "sources")
    batches, files_read = [], 0
    previous: tuple[int, list[str], str | None] | None = None
    read = _initial_offsets(query / "sources" / "0" / "0")
    for batch_id, path in started.items():
        _version, conf, *offsets = path.read_text(encoding="utf-8").splitlines()
        files_until = files_read
        if source is not None and offsets[source] != "-":
            files_until = json.loads(offsets[source])["logOffset"] + 1
        files = tuple(file for at in range(files_read, files_until) for file in entries.get(at, ()))
        reached = topic_offsets(offsets[0])
        ranges = tuple((*position, read.get(position, 0), offset) for position, offset in reached.items())
        metadata = json.loads(conf)
        clock_ms, partitions = metadata["batchTimestampMs"], metadata.get("conf", {}).get(_PARTITIONS)
        is_repartitioning = previous is not None and previous[:2] == (clock_ms, offsets) and previous[2] != partitions
        before = () if previous is None else tuple(previous[1])
        batches.append(
            Batch(batch_id, clock_ms, files, ranges, batch_id in committed, is_repartitioning, tuple(offsets), before)
        )
        files_read, read, previous = files_until, read | reached, (clock_ms, offsets, partitions)
    # Clocks may go back, as the wall clock may; but each clock belongs to one micro-batch.
    clocks_ms = [batch.clock_ms for batch in batches if not batch.is_repartitioning]
    assert len(set(clocks_ms)) == len(clocks_ms)
    return batches


def last_started(query: Path) -> int:
    """The newest started micro-batch, -1 before the first."""
    return max(_numbered(query / "offsets"), default=-1)


def last_committed(query: Path) -> int:
    """The newest committed micro-batch, -1 before the first."""
    return max(_numbered(query / "commits"), default=-1)


def committed_files(query: Path) -> set[Path]:
    """The files that a query has read and committed."""
    return {path_of(uri) for batch in batches_of(query) if batch.is_committed for uri in batch.files}


def committed_offsets(query: Path) -> Offsets:
    """The offset up to which a query has committed each partition of its topics."""
    return _offsets_after([batch for batch in batches_of(query) if batch.is_committed])


def started_offsets(query: Path) -> Offsets:
    """As `committed_offsets`, with the micro-batch that is running."""
    return _offsets_after(batches_of(query))


def _offsets_after(batches: list[Batch]) -> Offsets:
    return {(topic, partition): until for batch in batches for topic, partition, _, until in batch.ranges}


def topic_offsets(line: str) -> Offsets:
    """The topics in an offset log: the offset after the last one read, by topic and partition."""
    offsets = json.loads(line) if line.startswith("{") else {}
    return {
        (topic, int(partition)): offset
        for topic, partitions in offsets.items()
        if isinstance(partitions, dict)
        for partition, offset in partitions.items()
    }


def _initial_offsets(log: Path) -> Offsets:
    """The offsets from which a query first read its topics."""
    return topic_offsets(log.read_text(encoding="utf-8").rpartition("\n")[2]) if log.is_file() else {}


def merged_before(query: Path) -> int:
    """The version up to which, exclusively, a query has read the table that it streams; 0 at first."""
    batch_id = last_committed(query)
    if batch_id < 0:
        return 0
    _version, _conf, offset = (query / "offsets" / str(batch_id)).read_text(encoding="utf-8").splitlines()
    return json.loads(offset)["reservoirVersion"]


def path_of(uri: str) -> Path:
    return Path(unquote(urlparse(uri).path))


def _input_files(uri: str) -> list[str]:
    """The input files behind an entry of the source's log: a take names files, or pieces of them."""
    if not uri.endswith(".take"):
        return [uri]
    return list(dict.fromkeys(json.loads(line)["uri"] for line in path_of(uri).read_text().splitlines()))


def _numbered(folder: Path) -> dict[int, Path]:
    numbers = sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit()) if folder.is_dir() else []
    return {number: folder / str(number) for number in numbers}


def _file_source(sources: Path) -> tuple[int | None, dict[int, list[str]]]:
    """Find the log of a query's input, its first source, if it is files: files by the log's own offset.

    Every tenth entry of that log is a compact one, which repeats all earlier entries.
    """
    entries: dict[int, list[str]] = {}
    for path in (sources / "0").glob("*"):
        if path.name.removesuffix(".compact").isdigit():
            _version, *lines = path.read_text(encoding="utf-8").splitlines()
            for entry in map(json.loads, filter(lambda line: '"path"' in line, lines)):
                files = entries.setdefault(entry["batchId"], [])
                files.extend(file for file in _input_files(entry["path"]) if file not in files)
    return (0, entries) if entries else (None, {})
