"""A folder with streams whose files are taken, and what a query reads of the takes."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from sessionization.spark.checkpoint.take_log import take_numbers
from sessionization.spark.input import file_taker
from sessionization.spark.input.file_taker import FileTaker
from sessionization.spark.input.taken_lines import read_taken_files
from tests.support.default_streams import STREAMS


@dataclass
class Source:
    """A folder with streams, its taker, and what a query reads of the takes."""

    folder: Path
    tasks: int = 2
    read: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.restart()

    @property
    def log(self) -> Path:
        return self.folder / "input_files"

    def restart(self) -> None:
        self.taker = FileTaker([self.folder / "in" / stream for stream in STREAMS], self.log, self.tasks)

    def write(self, name: str, content: bytes | None = None, modified_s: int | None = None) -> Path:
        file = self.folder / "in" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(os.fsencode(name) + b"\n" if content is None else content)
        if modified_s is not None:
            os.utime(file, (modified_s, modified_s))
        return file

    def take(self) -> list[tuple[str, bytes]]:
        """Takes what has appeared. Returns stream and value of the rows of the takes that were not read before."""
        self.taker.take()
        return [(row["stream"], row["value"]) for row in self.rows()]

    def rows(self) -> Iterator[dict]:
        numbers = sorted(set(take_numbers(self.log)) - self.read)
        self.read |= set(numbers)
        for number in numbers:
            lines = (self.log / f"{number}.take").read_text().splitlines()
            for batch in read_taken_files(iter([pa.RecordBatch.from_pydict({"value": lines})])):
                yield from batch.to_pylist()

    def merge(self) -> None:
        """Merges what was read, as if both queries had committed it."""
        present = {stream: file_taker._present_names(self.folder / "in" / stream) for stream in STREAMS}
        self.taker._log.merge(self.read, present, file_taker.wall_clock_ms())
