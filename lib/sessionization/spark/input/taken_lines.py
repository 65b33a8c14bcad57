"""Reads the files of takes in Spark's tasks. Lines of any length need little memory, and any name can be opened."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sessionization.message_limits import MAX_VALUE_BYTES
from sessionization.spark.checkpoint.take_log import TakenFile, is_complete
from sessionization.spark.input.message_lines import read_lines

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

SCHEMA = "stream string, file string, modified_ms bigint, value binary, value_bytes bigint"
_BATCH_ROWS = 10_000
_BATCH_BYTES = 8 * 1024 * 1024


def read_taken_files(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
    """Read the files that the lines of takes name, as Spark's `mapInArrow` calls it.

    Yields rows of `SCHEMA`: `file` is a percent-encoded URI; `value` is a line without its end, of one that is longer
    than a message may be the first `MAX_VALUE_BYTES` + 1 bytes, and of a file that is damaged or was deleted empty;
    `value_bytes` is the whole length.

    Raises `RuntimeError` for a file that cannot be read.
    """
    rows = _Rows()
    for batch in batches:
        for file in map(TakenFile.from_json, filter(is_complete, batch.column("value").to_pylist())):
            path = file.path
            assert isinstance(path, Path), "only folders have takes"
            try:
                for values, lengths in read_lines(path, MAX_VALUE_BYTES + 1):
                    rows.add(file, values, lengths)
                    if rows.is_full:
                        yield rows.to_arrow()
            except OSError as error:
                msg = (
                    f"{file.uri} cannot be read ({error.strerror}): see to it, or to its mount; "
                    "or move it out of its folder, and leave something there"
                )
                raise RuntimeError(msg) from error
    if rows.values:
        yield rows.to_arrow()


class _Rows:
    """Rows that wait for an Arrow batch: many files have few lines, and a batch has its price."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self.files: list[tuple[TakenFile, int]] = []
        self.values: list[bytes] = []
        self.lengths: list[int] = []
        self._bytes = 0

    def add(self, file: TakenFile, values: list[bytes], lengths: list[int]) -> None:
        if values:
            self.files.append((file, len(values)))
        self.values += values
        self.lengths += lengths
        self._bytes += sum(map(len, values))

    @property
    def is_full(self) -> bool:
        return len(self.values) >= _BATCH_ROWS or self._bytes >= _BATCH_BYTES

    def to_arrow(self) -> "pa.RecordBatch":
        """The rows as a batch; then there are none."""
        import pyarrow as pa

        streams, uris, modified_ms = [], [], []
        for file, count in self.files:
            streams += [file.stream_and_name[0]] * count
            uris += [file.uri] * count
            modified_ms += [file.modified_ms] * count
        arrays = [
            pa.array(streams, pa.string()), pa.array(uris, pa.string()), pa.array(modified_ms, pa.int64()),
            pa.array(self.values, pa.binary()), pa.array(self.lengths, pa.int64()),
        ]  # fmt: skip
        self._reset()
        return pa.RecordBatch.from_arrays(arrays, names=["stream", "file", "modified_ms", "value", "value_bytes"])
