"""The lines of a file in bounded memory, whatever is in it: plain or compressed, cut off, or without line ends."""

import gzip
import zlib
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path

_COMPRESSED_ENDING = ".gz"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANK = b" \t\r"
_CHUNK_BYTES = 1024 * 1024

Lines = tuple[list[bytes], list[int]]
"""Values of messages, and the length in bytes of each as it came."""
_UNREADABLE: Lines = [b""], [0]


def read_lines(file: Path, most_bytes: int) -> Iterator[Lines]:
    """Yield the lines of a file that are not blank, without their LF or CRLF.

    A longer line is cut after `most_bytes`. An empty value stands for what cannot be read: the rest of a compressed
    file that is damaged, or a file that was deleted after it was taken.

    Raises `OSError` where the file cannot be read. So does a missing file in a folder without entries: its mount may be
    gone, and its messages must not be passed over.
    """
    try:
        with _open(file) as content:
            yield from _read(content, most_bytes)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        yield _UNREADABLE
    except FileNotFoundError:
        if next(file.parent.iterdir(), None) is None:
            raise
        yield _UNREADABLE


def _open(file: Path) -> BufferedIOBase:
    return gzip.open(file) if file.suffix == _COMPRESSED_ENDING else file.open("rb")


def _read(content: BufferedIOBase, most_bytes: int) -> Iterator[Lines]:
    line, mark = _Line(most_bytes), _BYTE_ORDER_MARK
    # `read1` gives what was unpacked before the damage of a file, `read` raises.
    while chunk := content.read1(_CHUNK_BYTES):
        chunk, mark = chunk.removeprefix(mark), b""
        first, *others = chunk.split(b"\n")
        line.add(first)
        if others:
            yield line.end()
            yield _whole_lines(others[:-1], most_bytes)
            line.add(others[-1])
    yield line.end()


def _whole_lines(lines: list[bytes], most_bytes: int) -> Lines:
    values = [line.removesuffix(b"\r") for line in lines if line.strip(_BLANK)]
    lengths = list(map(len, values))
    if lengths and max(lengths) > most_bytes:
        values = [value[:most_bytes] for value in values]
    return values, lengths


class _Line:
    """A line that has begun: its first bytes, its length, and its last byte."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._reset()

    def _reset(self) -> None:
        self._value, self._last, self._is_blank, self.length = b"", b"", True, 0

    def add(self, part: bytes) -> None:
        self._value += part[: self._most_bytes - len(self._value)]
        self._last = part[-1:] or self._last
        self._is_blank = self._is_blank and not part.strip(_BLANK)
        self.length += len(part)

    def end(self) -> Lines:
        """The line as a message, or no message where it is blank; the next line begins."""
        length = self.length - (self._last == b"\r")
        value, is_blank = self._value[:length], self._is_blank
        self._reset()
        return ([], []) if is_blank else ([value], [length])
